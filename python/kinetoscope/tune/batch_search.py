"""largest_batch: the largest batch that fits, found by trying; out of memory ends a try alone."""

import torch

from kinetoscope.torch.state_guard import kept_random
from kinetoscope.torch.tensor_tree import mapped, tensors_of
from kinetoscope.torch.trace_session import is_profiling
from kinetoscope.tune import free_memory, stopwatch
from kinetoscope.tune.contest import reason_of
from kinetoscope.tune.result import SweepResult, empty_row
from kinetoscope.tune.setting import Setting
from kinetoscope.tune.work import Runner, Work, as_batch

BATCH_MAX = 65_536
FREE_SHARE = 0.5  # of the memory that is free, on a CPU, where the kernel ends who takes too much
_UNMEASURED = (
    "without the peak of a step nothing would stop the search before the kernel ends this process"
)


def largest_batch(
    model,
    inputs,
    *,
    target=None,
    loss_fn=None,
    optimizer=None,
    training=None,
    bytes_max=None,
    batch_max=BATCH_MAX,
    setting=None,
):
    """The largest batch with which a step fits into memory.

    inputs (and target): one batch of any size, whose samples are repeated; the first dimension of
    every tensor in it is that of samples. A step is as in sweep_precision; `setting`: a Setting it
    runs in. From the size of the batch sizes are doubled until one does not fit, then halved
    towards the last that did, up to batch_max. On a GPU a size fits when torch finds the memory,
    and the peak of the step is within bytes_max, where that is given. On a CPU only bytes_max
    decides (without one half of what is free now), and what by the sizes tried would not fit is
    not tried; its memory is what torch's profiler counts, so RuntimeError while the program
    profiles itself.

    Returns a SweepResult whose rows are the sizes tried, in their order, with `samples_per_second`
    of one step, and whose best is {"batch_size"}; None where not even one sample fits.
    """
    work = Work(model, [as_batch(inputs, target)], loss_fn, optimizer, training)
    if work.device.type != "cuda" and is_profiling():
        raise RuntimeError(f"a profiler of the program records, and {_UNMEASURED}")
    search = _Search(work, setting or Setting(), bytes_max)
    with kept_random(), stopwatch.quick_collections():
        try:
            best = search.run(batch_max)
        finally:
            search.close()
    note = f"limit: {search.limit_text}"
    return SweepResult("largest_batch", search.rows, best, _code(best), [note])


def _code(best):
    return [] if best is None else [f"batch_size = {best['config']['batch_size']}"]


class _Search:
    def __init__(self, work, setting, bytes_max):
        self.rows = []
        self._work = work
        self._is_gpu = work.device.type == "cuda"
        self._limit = bytes_max
        if bytes_max is None and not self._is_gpu:
            self._limit = int(free_memory.available_bytes() * FREE_SHARE)
        self._one = _sample(work.batches[0])
        sizes = [len(t) for part in work.batches[0] for t in tensors_of(part) if t.dim() > 0]
        self._size = max(sizes, default=1)
        self._runner = Runner(work, setting)

    @property
    def limit_text(self):
        if self._limit is None:
            return "the memory of the GPU"
        return f"{self._limit / 1e6:.0f} MB"

    def close(self):
        self._runner.batches = []
        self._runner.close()
        stopwatch.clean(self._work.device)

    def run(self, batch_max):
        """The row of the largest size that fits, or None."""
        fits, too_large = None, batch_max + 1
        size = min(self._size, batch_max)
        while size > 0:
            row = self._try(size, is_first=fits is None)
            if row["reason"] is None:
                fits = row
            else:
                too_large = size
            last = fits["config"]["batch_size"] if fits else 0
            # Doubling until something fails, then halving.
            size = min(2 * last, batch_max) if too_large > batch_max else (last + too_large) // 2
            if size in (last, too_large):
                break
        return fits

    def _try(self, size, is_first):
        row = empty_row(f"batch {size}", {"batch_size": size}, "fits", samples_per_second=None)
        self.rows.append(row)
        expected = self._expected(size)
        if not self._is_gpu and expected is not None and expected > self._limit:
            row["verdict"], row["reason"] = "too_large", "by the sizes tried it does not fit"
            row["expected_bytes"] = expected
            return row
        self._measure(size, row, is_first)
        # Behind the handler of an exception, whose frames hold what did not fit.
        self._runner.batches = []
        stopwatch.clean(self._work.device)
        return row

    def _measure(self, size, row, is_first):
        try:
            self._runner.batches = [_repeated(self._one, size)]
            self._step(row, size)
        except Exception as failure:
            if is_first and not is_out_of_memory(failure):
                raise
            # Kernels have limits of their own.
            is_memory = is_out_of_memory(failure)
            row["reason"] = "out of memory" if is_memory else reason_of(failure)
            row["verdict"] = "too_large"

    def _step(self, row, size):
        runner, device = self._runner, self._work.device
        with runner.stepping():
            rise = stopwatch.peak_rise(runner.step, device)
            if rise is None:
                raise RuntimeError(f"this torch does not tell of memory, and {_UNMEASURED}")
            row["peak_bytes"] = rise + stopwatch.bytes_of(runner.model)
            if self._limit is not None and row["peak_bytes"] > self._limit:
                row["verdict"], row["reason"] = "too_large", "its peak is above the limit"
                return
            row["time"] = stopwatch.time_block(runner.step, 1, device) / 1e9
        row["samples_per_second"] = size / row["time"]
        row["rounds"] = 1

    def _expected(self, size):
        """Bytes, from the two largest sizes that were measured: memory of a step is a fixed part
        and one for each sample."""
        known = [(r["config"]["batch_size"], r["peak_bytes"]) for r in self.rows if r["peak_bytes"]]
        known = sorted(set(known))[-2:]
        if len(known) < 2:
            return None
        (small, low), (large, high) = known
        return high + (high - low) * (size - large) / (large - small)


def is_out_of_memory(failure):
    """Whether memory, of whatever device, was not there."""
    kinds = (MemoryError, torch.cuda.OutOfMemoryError)
    text = str(failure)
    return isinstance(failure, kinds) or (
        isinstance(failure, RuntimeError)
        and (
            "out of memory" in text or "not enough memory" in text or "CUBLAS_STATUS_ALLOC" in text
        )
    )


def _sample(batch):
    """The batch with one sample of each tensor."""
    return _per_sample(lambda tensor: tensor[:1], batch)


def _repeated(batch, size):
    return _per_sample(lambda tensor: tensor.expand(size, *tensor.shape[1:]).contiguous(), batch)


def _per_sample(change, batch):
    return mapped(lambda tensor: change(tensor) if tensor.dim() > 0 else tensor, batch)
