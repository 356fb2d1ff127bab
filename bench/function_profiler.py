"""What the function profiler adds to a call, against what cProfile adds, in one process.

In a round each program runs plain, under cProfile, under ours, and under ours without C calls; an
added time is the median over the rounds of what a call took more than the plain one of its round.
It is processor time of the thread, so that other work on the machine does not count.

Use: function_profiler.py [--rounds N] [--tiny] [--record FOLDER]    by the Python to be measured
"""

import argparse
import cProfile
import json
import os
import pathlib
import statistics
import sys
import sysconfig
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "capture")]

import build_extension  # noqa: E402

CALLS = 200_000
# At most this much of what cProfile adds: to any call, and to Python calls without C calls.
BEFORE_3_12 = (0.8, 0.8)
SINCE_3_12 = (0.75, 0.5)


def python_calls(times):
    def called():
        pass

    for _ in range(times):
        called()


def python_tree(times):
    def leaf(n):
        return n

    def branch(n):
        return leaf(n) + leaf(n + 1)

    for i in range(times // 3):
        branch(i)


def c_calls(times):
    items = (1, 2)
    for _ in range(times):
        len(items)


def mixed(times):
    text = json.JSONEncoder().iterencode
    value = {"a": [1, 2.5, "x"] * 4, "b": {"c": None}}
    for _ in range(times // 60):
        "".join(text(value, _one_shot=False))


PROGRAMS = (python_calls, python_tree, c_calls, mixed)


def plain(program, times):
    begin = time.thread_time_ns()
    program(times)
    return time.thread_time_ns() - begin


def under(profiler, enable, disable):
    def timed(program, times):
        enable(profiler)
        took = plain(program, times)
        disable(profiler)
        return took

    return timed


def kinds(function_profiler):
    """Fresh profilers, so that no round finds the tables of another one filled."""
    start, stop = function_profiler.start, function_profiler.stop
    yield "plain", plain
    yield "cProfile", under(cProfile.Profile(), cProfile.Profile.enable, cProfile.Profile.disable)
    yield "ours", under(function_profiler(), start, stop)
    yield "ours, no C calls", under(function_profiler(c_calls=False), start, stop)


def measure(program, times, rounds, function_profiler):
    """{kind: added ns per call}, and the plain time of a call."""
    rows = []
    for _ in range(rounds):
        found = {kind: run(program, times) for kind, run in kinds(function_profiler)}
        rows.append({kind: took / times for kind, took in found.items()})
    base = statistics.median(row["plain"] for row in rows)
    added = {
        kind: statistics.median(row[kind] - row["plain"] for row in rows)
        for kind in rows[0]
        if kind != "plain"
    }
    return base, added


def module_name():
    return "_kscope" + sysconfig.get_config_var("EXT_SUFFIX")


def main(arguments):
    parser = argparse.ArgumentParser(description="Times the function profiler and cProfile.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tiny", action="store_true", help="one round, few calls, no limits")
    parser.add_argument("--record", help="folder for a recording, in which ours then counts")
    options = parser.parse_args(arguments)
    rounds, times = (1, 600) if options.tiny else (options.rounds, CALLS)
    limits = SINCE_3_12 if sys.version_info >= (3, 12) else BEFORE_3_12
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        if not (ROOT / "build" / "python" / "ext" / module_name()).exists():
            os.environ["KSCOPE_EXTENSION_DIR"] = folder
            build_extension.build(sys.executable, folder)
        from kinetoscope import FunctionProfiler, start_recording

    if options.record:
        start_recording(options.record)
    print(f"{'ns added to a call':16} {'plain':>8} {'cProfile':>9} {'ours':>7} {'no C':>7}")
    for program in PROGRAMS:
        base, added = measure(program, times, rounds, FunctionProfiler)
        theirs, *ours = added.values()
        ratios = [value / theirs for value in ours]
        words = " ".join(f"{value:7.1f}" for value in ours)
        shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{program.__name__:18} {base:8.1f} {theirs:9.1f} {words}   {shown} of cProfile")
        for ratio, limit, kind in zip(ratios, limits, ("", " without C calls"), strict=True):
            if ratio > limit:
                wrong.append(f"{program.__name__}{kind}: more than {limit} of cProfile")
    for sentence in [] if options.tiny else wrong:
        print(f"missed: {sentence}")
    return 1 if wrong and not options.tiny else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
