"""Prints, as JSON, what HolisticTraceAnalysis says about traces. Runs in its own environment.

    .venv-bench/bin/python bench/hta_probe.py TRACE...

Each trace is analysed as HTA does by default, whole microseconds, and with its rounding off; the
last step counts. What HTA cannot do is given as the name of its error.
"""

import contextlib
import importlib.metadata
import io
import json
import logging
import math
import os
import subprocess
import sys
import warnings
import zlib

NO_ROUNDING = "HTA_DISABLE_NS_ROUNDING"
PACKAGES = ("HolisticTraceAnalysis", "pandas", "numpy")


def load(path):
    from hta.trace_analysis import TraceAnalysis

    return TraceAnalysis(
        trace_files={0: path}, trace_dir=os.path.dirname(path), include_last_profiler_step=True
    )


def rounded(sums):
    """To the nanosecond: what lies below is the noise of its floating microseconds."""
    return {name: round(value, 3) for name, value in sorted(sums.items())}


def temporal(analysis):
    row = analysis.get_temporal_breakdown(visualize=False).to_dict("records")[0]
    names = ("idle_time", "compute_time", "non_compute_time", "kernel_time")
    return rounded({name: float(row[f"{name}(us)"]) for name in names})


def overlap(analysis):
    """Percent of communication that computing hides; None without communication."""
    share = float(analysis.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"][0])
    return None if math.isnan(share) else share


def short(name):
    """A kernel's name, cut where it takes a whole screen."""
    return name if len(name) <= 72 else f"{name[:60]}~{zlib.crc32(name.encode()):08x}"


def kernels(analysis):
    """{name: sum}; the limit is so high that none become "others"."""
    _, rows = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1_000_000)
    sums = {}
    for row in rows.to_dict("records"):
        name = short(row["name"])
        sums[name] = sums.get(name, 0.0) + float(row["sum (us)"])
    return rounded(sums)


def attempt(function, analysis):
    try:
        return function(analysis)
    except (AssertionError, KeyError, ValueError, IndexError, TypeError) as error:
        return {"error": type(error).__name__}


def figures(path):
    analysis = load(path)
    parts = {"temporal": temporal, "overlap": overlap, "kernels": kernels}
    return {name: attempt(part, analysis) for name, part in parts.items()}


def probe(path):
    """Figures of one trace in this process, whose environment decides about the rounding."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()):
        return figures(os.path.abspath(path))


def in_new_process(path, environment):
    command = [sys.executable, os.path.abspath(__file__), "--one", path]
    env = {**os.environ, **environment}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main(paths):
    if paths[:1] == ["--one"]:
        print(json.dumps(probe(paths[1])))
        return
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    traces = {}
    for path in paths:
        traces[os.path.basename(path)] = {
            "rounded": in_new_process(path, {}),
            "exact": in_new_process(path, {NO_ROUNDING: "1"}),
        }
    print(json.dumps({"versions": versions, "traces": traces}, indent=1, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:])
