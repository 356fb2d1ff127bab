"""A data loader that measures itself: what a DataLoader does, with the same worker processes.

Nobody's class or object is changed. The loader and the dataset are copied shallowly, transforms in
the copies are replaced by TimedCall, and each batch brings along what it took, from whatever
process it was made in. Pinning is measured because torch asks a batch of a type of its own to pin
itself.
"""

import copy
from time import perf_counter_ns  # of one clock in all processes of a machine

import torch

from kinetoscope._engine import TimedCall

TRANSFORMS = ("transform", "target_transform", "transforms")
_INNER = ("dataset", "datasets")  # of Subset, ConcatDataset and their like


def measure(loader, with_transforms=True):
    """A copy of a DataLoader whose batches are MeasuredBatch. TypeError: it is none."""
    if not isinstance(loader, torch.utils.data.DataLoader):
        raise TypeError(f"not a torch DataLoader: {type(loader).__name__}")
    timers = _Timers()
    dataset = timers.put_into(loader.dataset) if with_transforms else loader.dataset
    is_iterable = isinstance(loader.dataset, torch.utils.data.IterableDataset)
    measured = (_MeasuredIterable if is_iterable else _MeasuredMap)(dataset)
    clone = copy.copy(loader)
    members = vars(clone)  # a DataLoader refuses a new dataset
    members["dataset"] = measured
    members["collate_fn"] = _MeasuredCollate(measured, loader.collate_fn, timers)
    members["_iterator"] = None  # persistent workers of the other stay its own
    return clone


class _Timers:
    """(name, TimedCall) of each transform as a whole, and of the steps of those that are a Compose.
    Two datasets can have one of the same name."""

    def __init__(self):
        self.wholes = []
        self.steps = []

    def put_into(self, dataset):
        """A shallow copy with timers in place of its transforms; itself where there are none."""
        members = getattr(dataset, "__dict__", None)
        if not isinstance(members, dict):
            return dataset
        changed = {name: self._inner(members[name]) for name in _INNER if name in members}
        # torchvision's `transforms` calls the other two.
        names = ("transforms",) if "transforms" in members else TRANSFORMS
        for name in names:
            if callable(members.get(name)):
                changed[name] = TimedCall(self._stepwise(members[name]))
                self.wholes.append((name, changed[name]))
        if all(members[name] is value for name, value in changed.items()):
            return dataset
        clone = copy.copy(dataset)
        vars(clone).update(changed)
        return clone

    def _inner(self, inner):
        if not isinstance(inner, list):
            return self.put_into(inner)
        measured = [self.put_into(each) for each in inner]
        is_same = all(a is b for a, b in zip(measured, inner, strict=True))
        return inner if is_same else measured

    def _stepwise(self, transform):
        steps = getattr(transform, "transforms", None)
        if not isinstance(steps, list) or not all(map(callable, steps)):
            return transform
        clone = copy.copy(transform)
        clone.transforms = []
        for index, step in enumerate(steps):
            name = f"{index}:{getattr(step, '__name__', type(step).__name__)}"
            self.steps.append((name, TimedCall(step)))
            clone.transforms.append(self.steps[-1][1])
        return clone

    def take(self):
        """(ns of all transforms, {step: ns}) since the last time."""
        whole_ns = sum(timer.take()[0] for _, timer in self.wholes)
        return whole_ns, {name: timer.take()[0] for name, timer in self.steps}


class _Measured:
    """Stands before a dataset: what is asked of it or set in it is asked and set there."""

    def __init__(self, dataset):
        vars(self)["_inner"] = dataset
        vars(self)["_spent_ns"] = 0

    def __getattr__(self, name):
        if name in ("_inner", "_spent_ns"):
            raise AttributeError(name)  # while it is unpickled
        return getattr(self._inner, name)

    def __setattr__(self, name, value):
        setattr(self._inner, name, value)

    @property
    def __class__(self):
        return type(self._inner)

    def __reduce__(self):
        return type(self), (self._inner,)

    def __len__(self):
        return len(self._inner)

    def _take(self):
        spent, vars(self)["_spent_ns"] = self._spent_ns, 0
        return spent

    def _spend(self, function, *args):
        began_ns = perf_counter_ns()
        try:
            return function(*args)
        finally:
            vars(self)["_spent_ns"] = self._spent_ns + perf_counter_ns() - began_ns


class _MeasuredMap(_Measured):
    def __getitem__(self, index):
        return self._spend(self._inner.__getitem__, index)

    def __getattr__(self, name):
        found = super().__getattr__(name)
        if name != "__getitems__" or not callable(found):
            return found
        return lambda indices: self._spend(found, indices)


class _MeasuredIterable(_Measured):
    def __iter__(self):
        iterator = self._spend(iter, self._inner)
        while True:
            try:
                item = self._spend(next, iterator)
            except StopIteration:
                return
            yield item


class _MeasuredCollate:
    """Called in the process that fetched, when a batch is fetched: makes it a MeasuredBatch."""

    def __init__(self, dataset, function, timers):
        self._dataset = dataset
        self._function = function
        self._timers = timers

    def __call__(self, samples):
        began_ns = perf_counter_ns()
        batch = self._function(samples)
        done_ns = perf_counter_ns()
        transform_ns, steps_ns = self._timers.take()
        worker = torch.utils.data.get_worker_info()
        times = {
            "fetch": self._dataset._take(),
            "transform": transform_ns,
            "steps": steps_ns,
            "collate": done_ns - began_ns,
            "worker": None if worker is None else worker.id,
            "done": done_ns,
        }
        return MeasuredBatch(batch, times)


class MeasuredBatch:
    """A batch and what it took, in ns; `done`: when it was there, by the monotonic clock."""

    def __init__(self, batch, times):
        self.batch = batch
        self.times = times

    def pin_memory(self, device=None):
        """Asked for by torch's thread that pins."""
        from torch.utils.data._utils.pin_memory import pin_memory

        began_ns = perf_counter_ns()
        batch = pin_memory(self.batch, device)
        return MeasuredBatch(batch, {**self.times, "pin": perf_counter_ns() - began_ns})
