"""compare: two functions beside each other, timed in turn until it is known which is faster."""

import contextlib
import html

import torch

from kinetoscope._engine import Trial
from kinetoscope.tune import stopwatch
from kinetoscope.tune.result import bytes_text, time_text

SECONDS = 10.0
DOUBT = 0.8
_SENTENCES = {
    "faster": "B is {speedup:.2f} times as fast as A ({low:.2f} to {high:.2f})",
    "slower": "B is slower than A: {speedup:.2f} times as fast ({low:.2f} to {high:.2f})",
    "no_difference": "no difference: B is {speedup:.3f} times as fast ({low:.3f} to {high:.3f})",
    "cannot_tell": "cannot tell: the times are too noisy, or there are too few of them",
}


class FunctionComparison:
    """What compare() gives. verdict: of B beside A: faster, slower, no_difference, cannot_tell.
    speedup (time of A to that of B) and its interval {low, high}; ratio, the reverse. a, b:
    {time, interval, std (seconds), rounds, warm_up, outliers, peak_bytes}. text: a sentence."""

    def __init__(self, told, a, b):
        self.verdict = told["verdict"]
        self.speedup = told["speedup"]
        self.ratio = told["ratio"]
        self.interval = {"low": told["speedup_low"], "high": told["speedup_high"]}
        self.rounds = told["rounds"]
        self.a = a
        self.b = b

    @property
    def text(self):
        known = {"speedup": self.speedup, **self.interval}
        verdict = "cannot_tell" if None in known.values() else self.verdict
        return _SENTENCES[verdict].format(**known)

    def to_dict(self):
        names = ("verdict", "speedup", "ratio", "interval", "rounds", "a", "b", "text")
        return {name: getattr(self, name) for name in names}

    def __str__(self):
        rows = [f"{name}  {_row(of)}" for name, of in (("A", self.a), ("B", self.b))]
        return "\n".join([self.text, *rows])

    def __repr__(self):
        return f"<kinetoscope.tune.FunctionComparison {self.text}>"

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"


def _row(of):
    peak = f", {bytes_text(of['peak_bytes'])} at the peak" if of["peak_bytes"] is not None else ""
    return f"{time_text(of['time'])} a call, {of['rounds']} rounds{peak}"


def compare(
    fn_a, fn_b, *args, seconds=SECONDS, rounds=0, tolerance=0.02, memory=True, device=None, **kwargs
):
    """Calls fn_a(*args, **kwargs) and fn_b(*args, **kwargs) in turn until it is known which is
    faster, or that neither is, or until `seconds` are over.

    Short functions are timed in blocks of calls, after one that counts for nothing. tolerance: what
    is no difference. With a GPU in use times are those between two CUDA events, the device is
    waited for, and peak memory is the allocator's; else torch's profiler says it. memory: whether
    it is measured (one more call of each). Random numbers of the functions go on as they do. What a
    function raises passes. A difference of less than 20 % must be seen twice. Returns a
    FunctionComparison. TypeError: not callable.
    """
    functions = [_bound(function, args, kwargs) for function in (fn_a, fn_b)]
    device = stopwatch.default_device() if device is None else torch.device(device)
    calls = [stopwatch.calls_for_a_block(function, device) for function in functions]
    calls = stopwatch.alike(calls)
    with stopwatch.quick_collections() if memory else contextlib.nullcontext():
        peaks = [_peak(function, device) if memory else None for function in functions]
    options = {"seconds": seconds, "rounds": rounds, "tolerance": tolerance}
    trial = _run(functions, calls, device, options)
    told = trial.compare(0, 1)
    if _is_doubtful(told):
        trial = _run(functions, calls, device, options)
        told = _agreed(told, trial.compare(0, 1))
    sides = (_side(trial.summary(number), peaks[number]) for number in (0, 1))
    return FunctionComparison(told, *sides)


def _run(functions, calls, device, options):
    trial = Trial(2, **options)
    for number in trial:
        if calls[number] > 1:
            functions[number]()
        trial.add(number, stopwatch.time_least(functions[number], calls[number], device))
    return trial


def _is_doubtful(told):
    """A small difference may be a burst of other work, in which neighbouring rounds are alike."""
    is_small = told["ratio"] is not None and DOUBT < told["ratio"] < 1 / DOUBT
    return told["verdict"] in ("faster", "slower") and is_small


def _agreed(first, second):
    """The second comparison, unless it says the contrary of the first, or knows nothing."""
    if second["verdict"] in (first["verdict"], "no_difference"):
        return second
    return {**second, "verdict": "cannot_tell"}


def _bound(function, args, kwargs):
    if not callable(function):
        raise TypeError(f"not a function: {type(function).__name__}")
    return lambda: function(*args, **kwargs)


def _peak(function, device):
    stopwatch.clean(device)
    return stopwatch.peak_rise(function, device)


def _side(summary, peak_bytes):
    def seconds(key):
        return None if summary[key] is None else summary[key] / 1e9

    return {
        "time": seconds("median_ns"),
        "interval": {"low": seconds("low_ns"), "high": seconds("high_ns")},
        "std": seconds("std_ns"),
        "rounds": summary["rounds"],
        "warm_up": summary["warm_up"],
        "outliers": summary["outliers"],
        "peak_bytes": peak_bytes,
    }
