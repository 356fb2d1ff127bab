#!/usr/bin/env python3
"""Times `kscope report` on inputs of one kind and ten times that: what grows must not grow faster.

    bench/growth.py [--all] [--runs N] [--tiny] [--folder DIR]

Inputs are a real trace grown to 10 and 100 MB (tools/gen_trace.py), and shapes with far more of one
thing than programs make (tools/gen_shapes.py), with 100,000 and 1,000,000 events; --all: every
shape. Both sizes run in turn in each round and the shortest times count. Exit status 1 when ten
times the events take over eleven times as long. The same is tested by counting instructions, in
tests/growth.
"""

import argparse
import pathlib
import shutil
import sys

from run import SOURCES, TINY_SOURCE, WORK, alternate, grown, program_under_test, warm

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import gen_shapes  # noqa: E402

SHAPES = ("deep_operators", "zero_length", "one_launch", "tracks", "names", "steps")
LIMIT = 11


def compare(name, paths, runs):
    """Ratio of the shortest times of both sizes."""
    for path in paths:
        warm(path)
    kscope = program_under_test()
    commands = {str(i): [kscope, "report", "--json", str(path)] for i, path in enumerate(paths)}
    results = alternate(commands, dict.fromkeys(commands, runs))
    small, large = (min(seconds for seconds, _, _ in results[key]) for key in ("0", "1"))
    peak = max(bytes_ for _, _, bytes_ in results["1"])
    print(f"{name:20} {small:8.3f}s {large:8.3f}s {large / small:7.2f} {peak / 1e6:9.1f}")
    return large / small


def shape_paths(name, events, folder):
    paths = []
    for count in (events, 10 * events):
        path = folder / f"{name}.{count}.json"
        gen_shapes.write(name, count, path)
        paths.append(path)
    return paths


def main(arguments):
    parser = argparse.ArgumentParser(description="Times what ten times the events cost.")
    parser.add_argument("--all", action="store_true", help="every shape")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="small inputs, one run, no limit")
    parser.add_argument("--folder", type=pathlib.Path, default=WORK, help="where inputs are kept")
    options = parser.parse_args(arguments)
    runs = 1 if options.tiny else options.runs
    size_mb, events = (0.3, 100) if options.tiny else (10, 100_000)
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{'ten times the events':20} {'small':>9} {'large':>9} {'ratio':>7} {'peak MB':>9}")
    ratios = {}
    for source in (TINY_SOURCE,) if options.tiny else SOURCES:
        paths = [grown(source, size, options.folder) for size in (size_mb, 10 * size_mb)]
        name = source.split(".pt.")[0]
        ratios[name] = compare(name, paths, runs)
    scratch = options.folder / "shapes"
    for name in gen_shapes.SHAPES if options.all else SHAPES:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        ratios[name] = compare(name, shape_paths(name, events, scratch), runs)
    shutil.rmtree(scratch, ignore_errors=True)
    missed = [f"{n} takes {r:.1f} times as long" for n, r in ratios.items() if r > LIMIT]
    for sentence in [] if options.tiny else missed:
        print(f"missed: ten times the events, {sentence}, not at most {LIMIT} times")
    return 1 if missed and not options.tiny else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
