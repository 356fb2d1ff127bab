"""LoaderVariant: one setting of a DataLoader, and the time of a batch when it has got going."""

import contextlib
import math
import warnings
from time import perf_counter_ns

from torch.utils.data import DataLoader

from kinetoscope.torch.state_guard import kept_random
from kinetoscope.torch.tensor_tree import move
from kinetoscope.tune import stopwatch

BLOCK_NS = 200_000_000
BATCHES_LEAST, BATCHES_MOST = 4, 128  # that are timed at a time
WHILE_NS = 1_000_000_000  # for fewer than that, where batches take long
NOTHING = object()
PATIENCE_S = 60  # for a worker that gives nothing


@contextlib.contextmanager
def unwarned():
    """More workers than cores are tried on purpose: torch need not warn of them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        yield


class Span:
    """Which batches of an epoch are timed: the same ones in all settings that have this span, since
    batches may differ, and work more by chance. The first setting that is timed says how many.

    workers: the most that any of them has.
    """

    def __init__(self, workers):
        self._workers = max(workers, 1)
        self.skipped = 1
        self.wanted = None

    def settle(self, ns):
        """By the time of one batch."""
        self.wanted = min(math.ceil(BLOCK_NS / ns), BATCHES_MOST)
        self.wanted = max(self.wanted, min(BATCHES_LEAST, WHILE_NS // ns), 1)
        self.skipped = max(min(self._workers, WHILE_NS // ns), 1)


class LoaderVariant:
    """Makes a new loader for each measurement, so that workers of one setting do not load on while
    another is timed.

    Behind the first batches of the workers, one of each, they give batches at the rate at which
    they make them, or the step takes them. That rate is what is timed, over whole turns of the
    workers. `around` gives the context of each measurement.
    """

    def __init__(self, common, config, step, device, around=contextlib.nullcontext, span=None):
        self.options = {**common, **config}
        workers = self.options.get("num_workers", 0)
        if workers > 0:
            self.options.setdefault("timeout", PATIENCE_S)
        self._is_persistent = bool(self.options.get("persistent_workers"))
        self._group = max(workers, 1)
        self._step = step
        self._around = around
        self._device = device
        self._span = span or Span(self._group)
        self.start_ns = 0  # of workers, as measured last
        self.spent_ns = 0  # by the last measurement
        self.samples_per_unit = self.batch_size = self._samples_of_batch()
        loader = self.make()
        self._length = len(loader) if _has_length(loader) else None

    def _samples_of_batch(self):
        """1 where a sampler of batches does not say: all settings share it, so it cancels out."""
        sampler = self.options.get("batch_sampler")
        self.has_size = sampler is None or hasattr(sampler, "batch_size")
        if sampler is not None:
            return getattr(sampler, "batch_size", 1)
        return self.options.get("batch_size") or 1

    def make(self):
        """A DataLoader with this setting."""
        with unwarned():
            return DataLoader(**self.options)

    def time(self):
        """ns of so many samples as a unit has, with its share of the start of workers."""
        if self._span.wanted is None:
            self.settle()
        ns, batches = self._measure()
        per_batch_ns = ns / batches + self._start_share()
        return max(int(per_batch_ns * self.samples_per_unit / self.batch_size), 1)

    def settle(self):
        """Measures once, unless that is done, so that `spent_ns` is known; the first one finds out
        how many batches make a block of a length that can be timed."""
        if self.spent_ns > 0:
            return
        is_first = self._span.wanted is None
        ns, batches = self._measure()
        if is_first:
            self._span.settle(max(ns // batches, 1))
            # What one measurement will take.
            self.spent_ns += (self._span.skipped + self._span.wanted - 2) * ns // batches

    def _start_share(self):
        """Workers start for each epoch, unless they are persistent."""
        if self._is_persistent or not self._length:
            return 0
        return self.start_ns / self._length

    def _measure(self):
        """(ns, batches in them)"""
        began_ns = perf_counter_ns()
        # Each time from the same states, so that all settings load the same samples.
        with kept_random(self.options), self._around(), unwarned():
            measured = self._run(*self._extent())
        self.spent_ns = perf_counter_ns() - began_ns
        return measured

    def _extent(self):
        """(batches before the clock starts, batches that are timed)"""
        group = self._group
        skipped = max(self._span.skipped, group)
        wanted = -(-(self._span.wanted or 1) // group) * group
        if self._length is None:
            return skipped, wanted
        if self.options.get("num_workers", 0) == 0:
            return min(skipped, self._length - 1), wanted
        for before in (skipped, group):
            turns = min(wanted, self._length - before) // group
            if turns > 0:
                return before, turns * group
        return 0, self._length  # an epoch is too short to get going in

    def _run(self, skipped, wanted):
        """An epoch of a loader in one process is followed by another one."""
        loader = self.make()
        stopwatch.synchronize(self._device)
        began_ns = perf_counter_ns()
        batches = _epochs(loader)
        first_ns = began_ns
        for number in range(skipped):
            self._take(next(batches))
            first_ns = perf_counter_ns() if number == 0 else first_ns
        stopwatch.synchronize(self._device)
        from_ns = perf_counter_ns()
        for _ in range(wanted):
            self._take(next(batches))
        stopwatch.synchronize(self._device)
        ns = perf_counter_ns() - from_ns
        del batches  # and with it the workers
        if skipped > 0 and self.options.get("num_workers", 0) > 0:
            # The first batch came when the workers had started and one of them had made it.
            self.start_ns = max(int(first_ns - began_ns - ns / wanted * self._group), 0)
        return ns, wanted

    def _take(self, batch):
        if self._device.type != "cpu":
            is_pinned = bool(self.options.get("pin_memory"))
            batch = move(batch, self._device, is_pinned)
        if self._step is not None:
            self._step(batch)


class EmptyEpoch(ValueError):
    """A loader gives nothing, or nothing more."""


def _epochs(loader):
    """Batches of one epoch after the other."""
    while True:
        batch = NOTHING
        for batch in loader:
            yield batch
        if batch is NOTHING:
            raise EmptyEpoch(
                "an epoch of the loader gives no batch: it is empty, or a stream that is at its end"
            )


def _has_length(loader):
    try:
        return len(loader) > 0
    except TypeError:
        return False
