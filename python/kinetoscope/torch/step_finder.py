"""Finds the ends of steps in a program that knows nothing about us.

Four kinds of sign can end a step. The higher one has authority: as soon as it is heard, the lower
ones are silent, and what they counted is forgotten.

  mark       kinetoscope.step(), or the end of the record_function that --step-mark names
  optimizer  the return of an optimizer's step, see step_counter.py
  loader     the next batch is asked for, in a program without an optimizer
  inference  the outermost module call returns, in a program without all of these

A program that has made an optimizer will use it: its loaders and modules wait for that, loaders
not for ever (a script that evaluates may load an optimizer and never step it).
"""

import threading

from kinetoscope.torch.call_counter import CallCounter
from kinetoscope.torch.step_counter import StepCounter

INFERENCE, LOADER, OPTIMIZER, NAMED_MARK, MARK = range(5)
NAMES = ("inference", "loader", "optimizer", "mark", "mark")

LOADER_PATIENCE = 512  # batches without a step of the optimizer that exists
LOADERS_IN_STEP = 2  # more batches of another loader in a row: the first one is used up


class _EachCounts:
    """Of marks each one counts."""

    clock_changes = 0

    def __init__(self):
        self.step_count = 0

    def is_step_end(self, key, dur_ns=0):
        self.step_count += 1
        return True


class _LoaderCounter:
    """Steps begin when a batch is asked for; the first request of an epoch ends none."""

    clock_changes = 0

    def __init__(self):
        self.step_count = 0
        self._clock = None  # the data set's id: each epoch has an iterator of its own
        self._silence = 0
        self._is_open = False

    def is_step_end(self, key, dur_ns=0):
        if key != self._clock:
            self._silence += 1
            if self._clock is not None and self._silence <= LOADERS_IN_STEP:
                return False  # a loader beside the first one
            self._clock = key
        self._silence = 0
        was_open, self._is_open = self._is_open, True
        self.step_count += was_open
        return was_open

    def epoch_ended(self, key):
        is_own = key == self._clock
        self._is_open = self._is_open and not is_own
        return is_own


_COUNTERS = (CallCounter, _LoaderCounter, StepCounter, _EachCounts, _EachCounts)


class StepFinder:
    """Only the thread that gave the first sign of the kind in authority has steps."""

    def __init__(self, mark_name, is_loader_worker):
        self.mark_name = mark_name
        self._is_loader_worker = is_loader_worker
        self.source = None
        self.restarts = 0  # counts up when what was counted before is worth nothing
        self.has_optimizer = False
        self._counter = None
        self._thread = None
        self._lock = threading.Lock()  # two threads may give their first sign at once
        self._loader_patience = LOADER_PATIENCE

    @property
    def step_count(self):
        return self._counter.step_count if self._counter is not None else 0

    @property
    def source_name(self):
        return None if self.source is None else NAMES[self.source]

    def is_stepping_thread(self):
        return self._thread == threading.get_ident()

    def is_step_end(self, source, key=None, dur_ns=0):
        if self.source is not source and not self._take_over(source):
            return False
        if self._thread != threading.get_ident():
            return False
        counter = self._counter
        changes = counter.clock_changes
        is_end = counter.is_step_end(key, dur_ns)
        self.restarts += counter.clock_changes != changes
        return is_end

    def epoch_ended(self, key):
        """True when the loader that makes the steps has no more batches."""
        if self.source is not LOADER or not self.is_stepping_thread():
            return False
        return self._counter.epoch_ended(key)

    def _take_over(self, source):
        """True when `source` has authority from now on."""
        with self._lock:
            if self.source is not None and source <= self.source:
                return False
            if not self._is_its_turn(source):
                return False
            self.restarts += self.source is not None
            self.source = source
            self._counter = _COUNTERS[source]()
            self._thread = threading.get_ident()
            return True

    def _is_its_turn(self, source):
        if self.mark_name is not None and source < NAMED_MARK:
            return False
        if source <= LOADER and self._is_loader_worker():
            return False
        if source is LOADER and self.has_optimizer:
            self._loader_patience -= 1
            return self._loader_patience < 0
        return not (source is INFERENCE and self.has_optimizer)
