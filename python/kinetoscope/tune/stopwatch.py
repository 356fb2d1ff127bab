"""Time and memory of one variant: by events on a GPU, by the clock and torch's profiler else."""

import contextlib
import gc
import itertools
import math
from time import perf_counter_ns

import torch

from kinetoscope.torch.trace_session import is_profiling

# Shorter blocks tell of the clock, or of launches on a GPU; longer ones are interrupted.
BLOCK_NS = {"cpu": 250_000}
BLOCK_NS_ELSEWHERE = 2_000_000
LOOK_NS, BLOCKS_MAX = 5_000_000, 40
CALLS_MAX, ALIKE_FACTOR = 1000, 4


def device_of(model):
    """Where a module is; the CPU for one without tensors."""
    tensor = next(itertools.chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if tensor is None else tensor.device


def default_device():
    """Where functions of the program run that nothing else is known of."""
    is_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    return torch.device("cuda", torch.cuda.current_device()) if is_gpu else torch.device("cpu")


def synchronize(device):
    """Waits until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def clean(device):
    """Between variants: what the last one left goes, so that the next one starts as it did."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


@contextlib.contextmanager
def quick_collections():
    """In the block the garbage collector looks only at what is newer than the block: it is asked
    to between variants, and a program with torch has half a million objects that stay."""
    if gc.get_freeze_count() > 0:  # the program, or a block around this one, has frozen its own
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def time_block(function, calls, device):
    """ns of one of so many calls. The garbage collector waits meanwhile: whose turn it is says
    nothing of the variant."""
    with _uncollected():
        if device.type == "cuda":
            return _time_by_events(function, calls, device)
        began_ns = perf_counter_ns()
        for _ in range(calls):
            function()
        return max((perf_counter_ns() - began_ns) // calls, 1)


def time_least(function, calls, device):
    """ns as time_block gives them, of the shortest of some blocks in a row, so many as a look may
    take: other work on the machine only makes blocks longer."""
    least_ns = time_block(function, calls, device)
    more = min(LOOK_NS // (least_ns * calls), BLOCKS_MAX) - 1
    return min([least_ns, *(time_block(function, calls, device) for _ in range(more))])


def _time_by_events(function, calls, device):
    with torch.cuda.device(device):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        begin.record()
        for _ in range(calls):
            function()
        end.record()
        torch.cuda.synchronize(device)
        return max(int(begin.elapsed_time(end) * 1e6) // calls, 1)


@contextlib.contextmanager
def _uncollected():
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def calls_for_a_block(function, device):
    """How many calls are long enough to be timed. Calls it twice."""
    function()
    once_ns = time_block(function, 1, device)
    block_ns = BLOCK_NS.get(device.type, BLOCK_NS_ELSEWHERE)
    return max(1, min(CALLS_MAX, math.ceil(block_ns / once_ns)))


def alike(calls):
    """The same numbers of calls, but those near the least are that: of blocks that differ in length
    the shorter ones are interrupted less often, and would seem quicker."""
    least = min(calls, default=1)
    return [least if count <= ALIKE_FACTOR * least else count for count in calls]


def peak_rise(function, device):
    """Bytes by which memory of the device is higher at the most within one call than before it.

    On a GPU the allocator says it, else torch's profiler, which sees what torch allocates. None
    where neither does: another profiler runs, or this torch has no such events.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        function()
        torch.cuda.synchronize(device)
        return max(torch.cuda.max_memory_allocated(device) - before, 0)
    return None if is_profiling() else _rise_on_cpu(function)


def _rise_on_cpu(function):
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        function()
    try:
        events = profile.profiler.kineto_results.events()
        changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    except AttributeError:  # they lie elsewhere in another torch
        return None
    return max(itertools.accumulate((change for _, change in changes), initial=0))


def bytes_of(model):
    """Of parameters and buffers, each once."""
    tensors = {id(t): t for t in itertools.chain(model.parameters(), model.buffers())}
    return sum(t.numel() * t.element_size() for t in tensors.values())
