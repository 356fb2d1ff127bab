"""Times variants of one piece of work in turn: what a Trial of the library says, by name."""

from kinetoscope._engine import Trial
from kinetoscope.tune import stopwatch

SECONDS, ROUNDS = 10.0, 60


def time_in_turn(calls, devices, seconds=SECONDS, rounds=ROUNDS):
    """calls: {name: function}; the first is what the others are compared with; when it fails, they
    are timed again, without it. devices: {name: where it computes}.

    ({name: {avg_time, std_time, median_time, interval {low, high} (of the median), rounds, speedup,
    speedup_low, speedup_high, verdict}}, {name: why it was not timed to the end}). Times are
    seconds; speedup is the first one's time over that of this one, None for the first.
    """
    names, failures = list(calls), {}
    trial = Trial(len(names), seconds=seconds, rounds=rounds)
    for variant in trial:
        name = names[variant]
        try:
            elapsed_ns = stopwatch.time_block(calls[name], 1, devices[name])
        except RuntimeError as failure:  # out of memory, or a kernel that is missing
            failures[name] = f"{type(failure).__name__}: {failure}"
            trial.drop(variant)
            if variant == 0:
                break
            continue
        trial.add(variant, elapsed_ns)
    if names[0] in failures:
        rest = {name: calls[name] for name in names if name not in failures}
        rows, later = time_in_turn(rest, devices, seconds, rounds) if rest else ({}, {})
        return rows, {**failures, **later}
    rows = {name: _row(trial, at) for at, name in enumerate(names) if name not in failures}
    return rows, failures


def _row(trial, variant):
    summary = trial.summary(variant)
    compared = trial.compare(0, variant) if variant else {}
    return {
        "avg_time": _in_seconds(summary["mean_ns"]),
        "std_time": _in_seconds(summary["std_ns"]),
        "median_time": _in_seconds(summary["median_ns"]),
        "interval": {
            "low": _in_seconds(summary["low_ns"]),
            "high": _in_seconds(summary["high_ns"]),
        },
        "rounds": summary["rounds"],
        **{key: compared.get(key) for key in _COMPARED},
    }


_COMPARED = ("speedup", "speedup_low", "speedup_high", "verdict")


def _in_seconds(ns):
    return None if ns is None else ns / 1e9
