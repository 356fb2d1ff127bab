"""Tells the recorder of steps that the program marks itself."""

import functools

import kinetoscope
from kinetoscope.torch.step_finder import MARK, NAMED_MARK


def hook_marks(torch, recorder, mark_name, is_compiling):
    """kinetoscope.step(), and the end of the record_function with that name."""

    def step():
        if not is_compiling():
            recorder.heard(MARK)

    kinetoscope._step = step
    if mark_name:
        _wrap_record_function(torch, recorder, mark_name)


def _wrap_record_function(torch, recorder, mark_name):
    record_function = torch.autograd.profiler.record_function
    leave = record_function.__exit__

    @functools.wraps(leave)  # TorchScript compiles what is wrapped
    def left(self, *args):
        result = leave(self, *args)
        if self.name == mark_name:
            recorder.heard(NAMED_MARK)
        return result

    record_function.__exit__ = left
