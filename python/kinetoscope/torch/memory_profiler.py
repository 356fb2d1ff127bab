"""TorchMemoryProfiler: what torch's allocator holds on the GPU, now and at the peak, by tags."""

import functools
import time

import torch

from kinetoscope._engine import slope

_FIGURES = {
    "allocated": "memory_allocated",
    "reserved": "memory_reserved",
    "max_allocated": "max_memory_allocated",
    "max_reserved": "max_memory_reserved",
}


class TorchMemoryProfiler:
    """Snapshots of the allocator of one GPU; `memory_snapshots` keeps them in order.

    `device`: as torch takes it, else the current GPU. Without a GPU nothing is kept, and nothing
    fails: snapshots are None.
    """

    def __init__(self, config=None, device=None):
        self.config = config
        self.device = device
        self.memory_snapshots = []

    @property
    def is_available(self):
        """Whether there is a GPU, and the config's profile_cuda_memory is on."""
        is_wanted = self.config is None or self.config.profile_cuda_memory
        return is_wanted and torch.cuda.is_available()

    def snapshot_memory(self, tag):
        """{tag, timestamp, allocated, reserved, max_allocated, max_reserved}: bytes, as torch.cuda
        gives them, and Unix time in seconds. None without a GPU."""
        if not self.is_available:
            return None
        figures = {key: getattr(torch.cuda, name)(self.device) for key, name in _FIGURES.items()}
        snapshot = {"tag": tag, "timestamp": time.time(), **figures}
        self.memory_snapshots.append(snapshot)
        return snapshot

    def reset_peak_stats(self):
        """Peaks count from now on. Does nothing without a GPU."""
        if self.is_available:
            torch.cuda.reset_peak_memory_stats(self.device)

    def memory_profile(self, function):
        """Decorator: snapshots before and behind each call, tagged "before_NAME", "after_NAME",
        also when it raises; the peak behind is that of the call."""

        @functools.wraps(function)
        def profiled(*args, **kwargs):
            name = getattr(function, "__name__", type(function).__name__)
            self.reset_peak_stats()
            self.snapshot_memory(f"before_{name}")
            try:
                return function(*args, **kwargs)
            finally:
                self.snapshot_memory(f"after_{name}")

        return profiled

    def analyze_growth(self):
        """How allocated memory grew over the snapshots, {} with fewer than two: {snapshots,
        bytes_total, bytes_per_snapshot, bytes_per_second}, the last two by least squares."""
        if len(self.memory_snapshots) < 2:
            return {}
        taken = self.memory_snapshots
        allocated = [snapshot["allocated"] for snapshot in taken]
        times = [snapshot["timestamp"] - taken[0]["timestamp"] for snapshot in taken]
        return {
            "snapshots": len(taken),
            "bytes_total": allocated[-1] - allocated[0],
            "bytes_per_snapshot": slope(list(range(len(taken))), allocated),
            "bytes_per_second": slope(times, allocated),
        }

    @staticmethod
    def current_metrics():
        """gpu_memory_allocated, gpu_memory_reserved, gpu_memory_cached (reserved, and not
        allocated), bytes of the current GPU; {} without one."""
        if not torch.cuda.is_available():
            return {}
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        return {
            "gpu_memory_allocated": allocated,
            "gpu_memory_reserved": reserved,
            "gpu_memory_cached": reserved - allocated,
        }


def memory_profile(function):
    """Decorator: a TorchMemoryProfiler takes snapshots around each call; it is the function's
    `memory_profiler`. Without a GPU calls are as ever."""
    profiler = TorchMemoryProfiler()
    profiled = profiler.memory_profile(function)
    profiled.memory_profiler = profiler
    return profiled
