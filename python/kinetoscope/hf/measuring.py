"""What the profilers of this package share: clocks that wait for the GPU, memory of a block, and
what the switches of a ProfilingConfig choose."""

import contextlib
from time import perf_counter_ns

import torch

import kinetoscope
from kinetoscope._engine import MemoryCurve
from kinetoscope.hf.storage_watch import StorageWatch
from kinetoscope.tune import stopwatch

MEBIBYTE = 2**20

device_of, model_bytes = stopwatch.device_of, stopwatch.bytes_of


def now_ns(device):
    """The clock, when all that was given to the device is done."""
    stopwatch.synchronize(device)
    return perf_counter_ns()


def seconds(began_ns, ended_ns):
    return (ended_ns - began_ns) / 1e9


def mark(device):
    """A moment: on a GPU when its work comes to it, without waiting for that."""
    if device.type != "cuda":
        return perf_counter_ns()
    event = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(device))
    return event


def between(began, ended):
    """Seconds between two marks; waits for the second one."""
    if isinstance(began, int):
        return seconds(began, ended)
    ended.synchronize()
    return began.elapsed_time(ended) / 1e3


def resident_bytes():
    """Memory of the process that the machine holds, all of it, not torch's alone."""
    with kinetoscope.SystemMonitor(0) as monitor:
        return monitor.latest().get("memory.rss", 0)


def gpu_bytes(device=None):
    """(allocated, reserved) by torch on the GPU; (None, None) without one."""
    if not torch.cuda.is_available():
        return None, None
    return torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)


def bytes_of(tensors):
    """Bytes of tensors; what is shared counts once."""
    unique = {id(t): t for t in tensors}.values()
    return sum(t.numel() * t.element_size() for t in unique)


def peak_bytes(function, device):
    """By how much memory of tensors grew while a function ran, at the most. On a GPU as torch's
    allocator says; on the CPU as operators made and freed tensors, which slows the call down, so
    it is not timed: torch's profiler, which also knows, may be recording the program already. None
    where that cannot be seen: in compiled code on the CPU."""
    if device.type == "cuda":
        return stopwatch.peak_rise(function, device)
    curve = MemoryCurve(["tensors"])
    with StorageWatch(curve, 0):
        function()
    return curve.peak()["total"]


def is_compiled(model):
    """Whether the module, or a module in it, is one that torch.compile made."""
    compiled = getattr(torch._dynamo, "OptimizedModule", ()) if hasattr(torch, "_dynamo") else ()
    return any(
        isinstance(m, compiled) or getattr(m, "_compiled_call_impl", None) is not None
        for m in model.modules()
    )


def mixed_dtype(config, model):
    """The dtype that use_mixed_precision and mixed_precision_dtype ask for; None: each weight
    computes in its own. "auto": bfloat16 on a GPU that has it, else float16, and none on the CPU or
    where weights are halves already."""
    if config is None or not config.use_mixed_precision:
        return None
    wanted, device = config.mixed_precision_dtype, device_of(model)
    if wanted not in (None, "auto"):
        found = dtype_of(wanted)
        return None if found == torch.float32 else found
    if device.type != "cuda" or _has_halves(model):
        return None
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def _has_halves(model):
    return any(p.dtype in (torch.bfloat16, torch.float16) for p in model.parameters())


def precision(config, model):
    """A context in which operators compute in mixed_dtype()."""
    return make_precision(config, model)()


def make_precision(config, model):
    """A function that gives such a context: to look at the model once takes time, too."""
    dtype, kind = mixed_dtype(config, model), device_of(model).type
    if dtype is None:
        return contextlib.nullcontext
    return lambda: torch.autocast(kind, dtype=dtype)


@contextlib.contextmanager
def evaluating(model):
    """In the block the model judges; then each module is in the mode that it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def config_or_default(config):
    """A ProfilingConfig: the one given, that of a profiler, or the defaults, in which a model then
    computes as it does without us."""
    config = getattr(config, "config", config)
    return kinetoscope.ProfilingConfig(use_mixed_precision=False) if config is None else config


def dtype_of(value):
    """A torch.dtype from one, from its name ("bfloat16", "torch.bfloat16"), or None."""
    if value is None or isinstance(value, torch.dtype):
        return value
    found = getattr(torch, str(value).removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"no dtype of torch: {value!r}")
    return found


def name_of_dtype(dtype):
    return None if dtype is None else str(dtype).removeprefix("torch.")
