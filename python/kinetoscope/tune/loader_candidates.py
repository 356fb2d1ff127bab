"""Which settings of a DataLoader are worth trying on this machine, and how code says them."""

import itertools
import os

from torch.utils.data import DataLoader, IterableDataset

from kinetoscope.torch.state_guard import kept_random
from kinetoscope.torch.tensor_tree import tensors_of
from kinetoscope.tune import free_memory

PREFETCHING = (4, 8)
USUAL_PREFETCHING = 2
MEMORY_SHARE = 0.25  # of shared and of free memory that waiting batches may have
_OWN = ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "batch_size")


def common_options(data, options):
    """What all settings share: the dataset, and what a given loader has besides its setting."""
    if isinstance(data, DataLoader):
        return {**_options_of(data), **options}
    if not (hasattr(data, "__getitem__") or hasattr(data, "__iter__")):
        raise TypeError(f"neither a dataset nor a DataLoader: {type(data).__name__}")
    return {"dataset": data, **options}


def _options_of(loader):
    options = {
        "dataset": loader.dataset,
        "collate_fn": loader.collate_fn,
        "worker_init_fn": loader.worker_init_fn,
        "multiprocessing_context": loader.multiprocessing_context,
        "generator": loader.generator,
        "timeout": loader.timeout or 0,
    }
    if isinstance(loader.dataset, IterableDataset):
        return {**options, "batch_size": loader.batch_size, "drop_last": loader.drop_last}
    if loader.batch_size is None and loader.batch_sampler is not None:
        return {**options, "batch_sampler": loader.batch_sampler}
    return {**options, "sampler": loader.sampler, "drop_last": loader.drop_last}


def own_config(data):
    """The setting that a loader has; that of DataLoader by default for a dataset."""
    if not isinstance(data, DataLoader):
        return {"num_workers": 0}
    config = {name: getattr(data, name, None) for name in _OWN}
    if config["num_workers"] == 0:
        del config["prefetch_factor"], config["persistent_workers"]
    if data.batch_size is None:
        del config["batch_size"]
    return config


class Limits:
    """What cores and memory allow. A worker that waits for a disk needs no core, so there may be
    twice as many as cores (four at least); batches that wait lie in shared memory."""

    def __init__(self, common, device):
        self._pins = device.type == "cuda"
        self._is_iterable = isinstance(common["dataset"], IterableDataset)
        self.workers_max = 0 if self._is_iterable else max(4, 2 * len(os.sched_getaffinity(0)))
        self._common = common

    def workers(self, baseline):
        """Settings with 1, 2, 4 ... workers. None of an iterable: each worker would give all of
        it, unless it shares the work out by itself, which cannot be seen."""
        if self._is_iterable:
            return
        room = self._room(baseline)
        counts = itertools.takewhile(lambda n: n <= self.workers_max, (2**k for k in range(10)))
        for workers in counts:
            if workers * USUAL_PREFETCHING <= room and workers != baseline.get("num_workers"):
                yield self._config(baseline, workers, USUAL_PREFETCHING)

    def prefetching(self, best):
        """Settings that have more batches waiting."""
        workers = best.get("num_workers", 0)
        if workers == 0:
            return
        for factor in PREFETCHING:
            if workers * factor <= self._room(best) and factor != best.get("prefetch_factor"):
                yield self._config(best, workers, factor)

    def _config(self, like, workers, factor):
        config = {**like, "num_workers": workers, "prefetch_factor": factor}
        config["persistent_workers"] = True
        config["pin_memory"] = self._pins
        return config

    def _room(self, config):
        """How many batches may wait."""
        size = _bytes_of_batch(self._common, config)
        return MEMORY_SHARE * min(_shared_bytes(), free_memory.available_bytes()) / max(size, 1)


def _bytes_of_batch(common, config):
    names = ("dataset", "collate_fn", "sampler", "batch_sampler", "drop_last", "batch_size")
    options = {k: v for k, v in {**common, **config}.items() if k in names}
    with kept_random(common):
        batch = next(iter(DataLoader(**options)), None)
    return sum(t.numel() * t.element_size() for t in tensors_of(batch))


def _shared_bytes():
    try:
        status = os.statvfs("/dev/shm")  # where torch passes tensors between processes
    except OSError:
        return 1 << 40
    return status.f_bavail * status.f_frsize


def label(config):
    """A setting in few words."""
    names = {"num_workers": "workers", "batch_size": "batch", "prefetch_factor": "prefetch"}
    words = [f"{names.get(k, k)}={v}" for k, v in config.items() if not isinstance(v, bool)]
    words += [
        k.removesuffix("_workers").removesuffix("_memory") for k, v in config.items() if v is True
    ]
    return ", ".join(words)


def code(config):
    """Arguments of DataLoader."""
    arguments = "".join(f", {name}={value!r}" for name, value in config.items())
    return [f"loader = DataLoader(dataset{arguments})"]
