"""What torch's compiler has counted in this process. A trace shows compiled code that runs, but not
what was left out of it: functions that were not compiled, graphs that were not taken.

Counters are no interface of torch: any release may change them. The compiler is not loaded for
them, and nothing here raises.
"""

import sys

REASON_LEN_MAX = 200
_UTILS = "torch._dynamo.utils"


def totals():
    """Counts since the program began, by name, as profile_compilation explains them. 0 before torch
    has compiled; None: this torch does not count it."""
    return {name: 0 if _UTILS not in sys.modules else _quietly(ask) for name, ask in _ASKED.items()}


def since(before):
    """What has been counted since totals() gave `before`, with the reasons."""
    counts = {
        name: None if value is None else max(value - (before[name] or 0), 0)
        for name, value in totals().items()
    }
    return {
        **counts,
        "graph_break_reason": break_reason() if counts["graph_breaks"] else None,
        "recompile_reason": recompile_reason() if counts["recompiles"] else None,
    }


def members():
    """What is worth writing into a trace, by name; nothing when torch has not compiled."""
    found = {name: count for name, count in totals().items() if count is not None}
    if not found.get("functions"):
        return {}
    reasons = {"graph_break_reason": break_reason(), "recompile_reason": recompile_reason()}
    return {**found, **{name: reason for name, reason in reasons.items() if reason}}


def break_reason():
    """Why graphs were broken most often, in a line; None without any."""
    return _quietly(_break_reason)


def recompile_reason():
    """Why a function was compiled again the last time, in a line; None without any."""
    return _quietly(_recompile_reason)


def _quietly(ask):
    try:
        return ask()
    except Exception:
        return None


def _counters(name):
    return sys.modules[_UTILS].counters.get(name, {})


def _compile_s():
    """Of the outermost work on each function."""
    times = sys.modules[_UTILS].compilation_time_metrics
    names = ("_compile.compile_inner", "compile_inner")
    return float(sum(sum(times.get(name, ())) for name in names))


def _recompiles():
    """Functions have a number each, and how often each was compiled is counted by it."""
    counts = sys.modules["torch._dynamo.convert_frame"].FRAME_COMPILE_COUNTER
    return int(sum(counts.values()) - len(counts))


def _break_reason():
    # A break inside of a loop gives the whole function up, and counts as this only.
    reasons = _counters("graph_break") or _counters("unimplemented")
    return _in_one_line(max(reasons, key=reasons.get)) if reasons else None


def _recompile_reason():
    """Of the last compilations, which are as many as torch keeps."""
    found = [metrics.recompile_reason for metrics in sys.modules[_UTILS].get_compilation_metrics()]
    reasons = [reason for reason in found if reason]
    return _in_one_line(reasons[-1]) if reasons else None


_ASKED = {
    "compile_time": _compile_s,
    "functions": lambda: int(_counters("frames").get("total", 0)),
    "functions_compiled": lambda: int(_counters("frames").get("ok", 0)),
    "recompiles": _recompiles,
    "graphs": lambda: int(_counters("stats").get("unique_graphs", 0)),
    "graph_breaks": lambda: sum(int(count) for count in _counters("graph_break").values()),
    "graphs_skipped": lambda: int(_counters("inductor").get("cudagraph_skips", 0)),
}


def _in_one_line(reason):
    """ "What it cannot do: with which call", of the many lines that newer releases write."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    mark = "Developer debug context:"
    context = [line.removeprefix(mark).strip() for line in lines if line.startswith(mark)]
    return ": ".join(lines[:1] + context[:1])[:REASON_LEN_MAX]
