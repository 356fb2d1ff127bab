"""DataLoadingProfiler: what a batch takes, part by part, in the training process and in workers."""

import math
import os
from time import perf_counter_ns

import torch

from kinetoscope._engine import advise, summarize
from kinetoscope.torch.measured_loader import MeasuredBatch, measure
from kinetoscope.torch.state_guard import kept_random
from kinetoscope.torch.tensor_tree import move

_PARTS = ("wait", "read", "transform", "collate", "pin", "queue", "transfer")


class LoaderTimes:
    """Collects what MeasuredBatches say, for one pass over a loader."""

    def __init__(self):
        self._parts = {part: [] for part in _PARTS}
        self._load = []
        self._workers = {}
        self._steps = {}
        self._began_ns = self._ended_ns = perf_counter_ns()

    def take(self, iterator):
        """The next batch, measured. Raises what the loader raises."""
        began_ns = perf_counter_ns()
        batch = next(iterator)
        self._ended_ns = perf_counter_ns()
        self._parts["wait"].append(self._ended_ns - began_ns)
        if not isinstance(batch, MeasuredBatch):
            return batch
        self._add(batch.times)
        return batch.batch

    def _add(self, times):
        parts = self._parts
        read_ns = max(times["fetch"] - times["transform"], 0)
        parts["read"].append(read_ns)
        parts["transform"].append(times["transform"])
        parts["collate"].append(times["collate"])
        parts["pin"].append(times.get("pin", 0))
        self._load.append(read_ns + times["collate"] + times.get("pin", 0))
        if times["worker"] is not None:
            arrived_ns = self._ended_ns - times["done"] - times.get("pin", 0)
            parts["queue"].append(max(arrived_ns, 0))
            self._workers.setdefault(times["worker"], []).append(times["fetch"])
        for name, step_ns in times["steps"].items():
            self._steps.setdefault(name, []).append(step_ns)

    def add_transfer(self, transfer_ns):
        """Time of one copy to the device."""
        self._parts["transfer"].append(transfer_ns)

    def stats(self, with_transforms=True):
        """The figures of DataLoadingProfiler.profile_dataloader, times in seconds."""
        wall_s = (self._ended_ns - self._began_ns) / 1e9
        count = len(self._parts["wait"])
        parts = {part: _seconds(values) for part, values in self._parts.items() if values}
        if not with_transforms:
            parts.pop("transform", None)
        is_measured = bool(self._load)
        loading = _seconds(self._load) if is_measured else parts.get("wait")
        return {
            "total_batches": count,
            "avg_loading_time": loading["mean"] if loading else 0.0,
            "avg_preprocessing_time": _mean(parts, "transform"),
            "throughput": count / wall_s if wall_s > 0 else 0.0,
            "total_time": wall_s,
            "num_workers": len(self._workers) if is_measured else None,
            "parts": parts,
            "transforms": {name: _seconds(values) for name, values in self._steps.items()},
            "workers": {str(id): _seconds(v) for id, v in sorted(self._workers.items())},
        }


def _seconds(values_ns):
    return summarize([value / 1e9 for value in values_ns])


def _mean(parts, name):
    return parts[name]["mean"] if name in parts else 0.0


class DataLoadingProfiler:
    """Measures data loaders. `config`: a ProfilingConfig (profile_preprocessing)."""

    def __init__(self, config=None):
        self.config = config

    def profile_dataloader(self, loader, num_batches=None, device=None):
        """Takes `num_batches` batches (all without a number) and nothing else, and says, times in
        seconds:

        total_batches; avg_loading_time of a batch: reading the samples, collating, pinning;
        avg_preprocessing_time of a batch: the dataset's transform, 0 without one; throughput:
        batches a second; total_time of it all; num_workers that made batches, None where that
        cannot be seen. `parts`: mean, std, min, max, p50 ... of `wait` (of this thread for a
        batch), `read`, `transform`, `collate`, `pin`, `queue` (from a worker's last touch until it
        is taken), `transfer` (to `device`, when one is given). `transforms`: each step of a
        Compose; `workers`: what fetching took in each.

        Random states are as before, the loader and its dataset are not changed. Of an iterable that
        is no DataLoader only waiting can be seen. TypeError: nothing to iterate over; ValueError:
        it is empty; what the loader raises passes.
        """
        times = LoaderTimes()
        with kept_random(loader):
            iterator = iter(self.measured(loader))
            for batch in _batches(times, iterator, num_batches):
                if device is not None:
                    _transfer(times, batch, device)
            del iterator  # ends the workers
        stats = times.stats(self._has_transforms)
        if stats["total_batches"] == 0:
            raise ValueError("the data loader is empty: there is nothing to measure")
        return stats

    def measured(self, loader):
        """What to iterate over in place of the loader, for LoaderTimes.take. TypeError."""
        if isinstance(loader, torch.utils.data.DataLoader):
            return measure(loader, self._has_transforms)
        if not hasattr(loader, "__iter__"):
            raise TypeError(f"not an iterable of batches: {type(loader).__name__}")
        return loader

    @property
    def _has_transforms(self):
        return self.config is None or self.config.profile_preprocessing

    def identify_bottlenecks(self, stats, step_time=None):
        """Sentences about what profile_dataloader measured; none when nothing is slow.

        `step_time`: seconds of a whole step. Without it a batch is slow from 10 ms on,
        with it when loading would take 5 % of a step and more.
        """
        return [sentence for _, sentence in _advice_of(stats, step_time)]

    def optimize_dataloader(self, loader, stats, step_time=None):
        """Arguments of DataLoader that would help, {} for none: so many workers that they keep up
        with the step (or, without a step_time, all processors but one). The loader stays as it is.
        """
        if "input.starved" not in dict(_advice_of(stats, step_time)):
            return {}
        batch_s = stats["avg_loading_time"] + (stats["avg_preprocessing_time"] or 0)
        workers = _workers_for(batch_s, step_time, stats.get("num_workers") == 0)
        return {
            "num_workers": max(workers, getattr(loader, "num_workers", 0)),
            "persistent_workers": True,
            "prefetch_factor": getattr(loader, "prefetch_factor", None) or 2,
            "pin_memory": torch.cuda.is_available(),
        }


def _batches(times, iterator, limit):
    taken = 0
    while limit is None or taken < limit:
        try:
            batch = times.take(iterator)
        except StopIteration:
            return
        taken += 1
        yield batch


def _transfer(times, batch, device):
    began_ns = perf_counter_ns()
    move(batch, device)
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
    times.add_transfer(perf_counter_ns() - began_ns)


def _advice_of(stats, step_time):
    count = stats["total_batches"]
    figures = {
        "batches": count,
        "batch_s": stats["avg_loading_time"],
        "transform_s": stats["avg_preprocessing_time"] or 0.0,
        "workers": stats.get("num_workers") or 0,
    }
    if step_time is not None:
        figures["total_s"] = count * step_time
    return advise(**figures)


def _workers_for(batch_s, step_time, loads_itself):
    """So many that a batch is there when the step has ended; all processors but one at most."""
    most = min(max(len(os.sched_getaffinity(0)) - 1, 1), 64)
    rest_s = (step_time or 0) - (batch_s if loads_itself else 0)
    return max(1, min(most, math.ceil(batch_s / rest_s))) if rest_s > 0 else most
