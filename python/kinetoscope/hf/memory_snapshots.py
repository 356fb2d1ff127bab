"""TransformersMemoryProfiler: what a model and its program hold in memory, by tags."""

import time

from kinetoscope.hf import measuring


class TransformersMemoryProfiler:
    """Snapshots of a model's sizes and of memory; `memory_snapshots` keeps them in order.

    Without a GPU, or with the config's profile_cuda_memory off, what is about one is None.
    """

    def __init__(self, config=None):
        self.config = measuring.config_or_default(config)
        self.memory_snapshots = []

    def snapshot_model_memory(self, model, tag):
        """{tag, timestamp (Unix time, s), model_parameters, model_buffers (numbers of elements),
        parameter_bytes, buffer_bytes, gradient_bytes, cpu_memory (bytes of the process),
        gpu_memory_allocated, gpu_memory_reserved (bytes, torch's allocator)}"""
        parameters, buffers = list(model.parameters()), list(model.buffers())
        gradients = [p.grad for p in parameters if p.grad is not None]
        allocated, reserved = self._gpu()
        snapshot = {
            "tag": tag,
            "timestamp": time.time(),
            "model_parameters": sum(p.numel() for p in parameters),
            "model_buffers": sum(b.numel() for b in buffers),
            "parameter_bytes": measuring.bytes_of(parameters),
            "buffer_bytes": measuring.bytes_of(buffers),
            "gradient_bytes": measuring.bytes_of(gradients),
            "cpu_memory": measuring.resident_bytes(),
            "gpu_memory_allocated": allocated,
            "gpu_memory_reserved": reserved,
        }
        self.memory_snapshots.append(snapshot)
        return snapshot

    def _gpu(self):
        return measuring.gpu_bytes() if self.config.profile_cuda_memory else (None, None)

    def analyze_memory_growth(self):
        """{"a_to_b": {gpu_memory_growth, cpu_memory_growth (bytes), time_delta (s),
        memory_growth_rate (bytes a second on the GPU)}} of each two snapshots in a row; {} with
        fewer than two. The rate is None when no time passed, or nothing is known. Pairs with one
        name are numbered: a_to_b, a_to_b_2."""
        growth = {}
        for before, after in zip(self.memory_snapshots, self.memory_snapshots[1:], strict=False):
            growth[_new_name(growth, f"{before['tag']}_to_{after['tag']}")] = _grown(before, after)
        return growth


def _grown(before, after):
    elapsed = after["timestamp"] - before["timestamp"]
    on_gpu = _difference(before, after, "gpu_memory_allocated")
    return {
        "gpu_memory_growth": on_gpu,
        "cpu_memory_growth": _difference(before, after, "cpu_memory"),
        "time_delta": elapsed,
        "memory_growth_rate": None if on_gpu is None or elapsed <= 0 else on_gpu / elapsed,
    }


def _difference(before, after, key):
    pair = before.get(key), after.get(key)
    return None if None in pair else pair[1] - pair[0]


def _new_name(taken, name):
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found
