"""What torch's compiler has counted in this process. A trace shows compiled code that runs, but not
what was left out of it: functions that were not compiled, graphs that were not taken.
"""

import sys

REASON_LEN_MAX = 200


def members():
    """Counts since the program began; nothing when it has not compiled, or when torch keeps them
    elsewhere. Does not load the compiler, and never raises."""
    try:
        counters = sys.modules["torch._dynamo.utils"].counters
        frames, breaks = counters.get("frames", {}), counters.get("graph_break", {})
        # A break inside of a loop gives the whole function up, and counts as this only.
        reasons = breaks or counters.get("unimplemented", {})
        found = {
            "functions": int(frames.get("total", 0)),
            "functions_compiled": int(frames.get("ok", 0)),
            "graph_breaks": sum(int(count) for count in breaks.values()),
            "graphs_skipped": int(counters.get("inductor", {}).get("cudagraph_skips", 0)),
        }
        if reasons:
            found["graph_break_reason"] = _in_one_line(max(reasons, key=reasons.get))
    except Exception:  # counters are no interface of torch: any release may change them
        return {}
    return found if found["functions"] else {}


def _in_one_line(reason):
    """ "What it cannot do: with which call", of the many lines that newer releases write."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    mark = "Developer debug context:"
    context = [line.removeprefix(mark).strip() for line in lines if line.startswith(mark)]
    return ": ".join(lines[:1] + context[:1])[:REASON_LEN_MAX]
