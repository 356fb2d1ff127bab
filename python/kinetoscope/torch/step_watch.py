"""What the hooks of a run tell, up to the end of a step: the part that recording and tuning share.

The hooks call the methods below from any thread. StepFinder says which of what they tell ends a
step; a step that an optimizer ends is over when the outermost call of `step` returns, since until
then torch's own region of it is open. What is done at a step's end is the subclass's.
"""

import functools
import threading

from kinetoscope.torch.step_finder import OPTIMIZER, StepFinder


def entry_point(method):
    """For all that the program's own calls reach: a failure of ours ends here, and turns us off."""

    @functools.wraps(method)
    def guarded(watch, *args):
        try:
            method(watch, *args)
        except Exception as failure:
            watch.fail(failure)

    return guarded


class _ThreadCalls(threading.local):
    """How deep this thread is inside calls of `step`, and whether one of them ended a step."""

    depth = 0
    is_step_over = False
    stepped_count = 0  # of optimizers


class StepWatch:
    """Subclasses call `_watch` at first and in children, say with `_is_off` whether they listen,
    and have `_end_step()`, `_restart(step_count)` and `fail(failure)`."""

    loader_meter = None  # what takes the times of the data loader in the thread that has the steps
    wants_outputs = False  # whether `saw_output` is to be called
    modules = None  # the ModuleWatcher, once it is there

    def _watch(self, torch, mark_name):
        self._finder = StepFinder(mark_name, _is_loader_worker(torch))
        self._restarts = 0
        self._calls = _ThreadCalls()

    @entry_point
    def heard(self, source, key=None, dur_ns=0):
        """A sign that may end a step; see step_finder.py."""
        if not self._is_off and self._is_step_end(source, key, dur_ns):
            self._end_step()

    @entry_point
    def optimizer_made(self):
        self._finder.has_optimizer = True
        self._let_modules_go()

    @entry_point
    def optimizer_called(self):
        self._calls.depth += 1

    @entry_point
    def optimizer_stepped(self, optimizer):
        """An optimizer has done its work, but its own record_function is still open."""
        calls = self._calls
        calls.stepped_count += 1
        self._finder.has_optimizer = True
        if self._is_off or not self._is_step_end(OPTIMIZER, optimizer, 0):
            return
        self._saw_optimizer(optimizer)
        if calls.depth > 0:
            calls.is_step_over = True  # optimizer_returned ends it
        else:
            self._end_step()

    @entry_point
    def optimizer_returned(self):
        calls = self._calls
        calls.depth = max(calls.depth - 1, 0)  # a fork inside `step` began anew
        if calls.is_step_over and calls.depth == 0:
            calls.is_step_over = False
            if not self._is_off:
                self._end_step()

    @property
    def stepped_count(self):
        """Steps that optimizers made in this thread."""
        return self._calls.stepped_count

    def _is_step_end(self, source, key, dur_ns):
        finder = self._finder
        is_end = finder.is_step_end(source, key, dur_ns)
        if finder.restarts != self._restarts:
            self._restarts = finder.restarts
            self._restart(finder.step_count - is_end)
        return is_end

    def _let_modules_go(self):
        if self.modules is not None:
            self.modules.end()

    def _saw_optimizer(self, optimizer):
        """Its `step` ends this step."""


def is_worker():
    """Of multiprocessing: workers of loaders that are spawned import torch, too."""
    import multiprocessing  # torch has loaded it already

    process = multiprocessing.current_process()
    return process.name != "MainProcess" or getattr(process, "_inheriting", False)


def _is_loader_worker(torch):
    """A test whether this process fetches batches for another one: its modules are transforms."""
    worker_info = torch.utils.data.get_worker_info
    return lambda: worker_info() is not None
