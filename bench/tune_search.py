#!/usr/bin/env python3
"""Holds `kscope tune` against an exhaustive search of the loader's settings.

    bench/tune_search.py [--kscope build/kscope] [--steps 200] [--repeat 5] [--quick]

Exhaustive: bench/starved_program.py is run once for each setting of workers, prefetching,
persistent workers and pinned memory, with the same number of steps each. Tuned: `kscope tune` on
the same program without any of them. Then the two winners run in turn, `--repeat` times each, and
their medians are compared: the searches' own numbers were taken at other times. The exit status is
1 when the tuned setting is more than 10 % slower, or took more than a quarter of the time.
"""

import argparse
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / "starved_program.py"
SLOWER_MAX = 1.10
TIME_SHARE_MAX = 0.25


def settings(quick):
    """As words of the program; without workers there is nothing to prefetch or to keep."""
    workers, prefetches = ((1, 2, 4), (2,)) if quick else ((1, 2, 3, 4, 6, 8), (2, 4, 8))
    switches = ((), ("--pin",))
    yield from switches
    for count, prefetch, kept, pin in itertools.product(
        workers, prefetches, ((), ("--persistent",)), switches
    ):
        yield ("--workers", str(count), "--prefetch", str(prefetch), *kept, *pin)


def step_ms(words, steps):
    command = [sys.executable, str(PROGRAM), "--steps", str(steps), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(re.search(r"^step_ms ([0-9.]+)$", done.stdout, re.MULTILINE)[1])


def exhaustive(options):
    began = time.perf_counter()
    times = {words: step_ms(words, options.steps) for words in settings(options.quick)}
    return min(times, key=times.get), time.perf_counter() - began, times


def tuned(options, folder):
    env = {**os.environ, "KSCOPE_PYTHON": sys.executable}
    command = [options.kscope, "tune", "--what", "dataloader", "--json", "-q", "-o", folder]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, str(PROGRAM)], capture_output=True, text=True, check=True, env=env
    )
    return json.loads(done.stdout), time.perf_counter() - began


def words_of(setting):
    words = []
    for name in ("workers", "prefetch"):
        if name in setting:
            words += [f"--{name}", setting[name]]
    words += [f"--{name}" for name in ("persistent", "pin") if setting.get(name) == "1"]
    return tuple(words)


def compare(options, best, own):
    times = {best: [], own: []}
    for round_ in range(options.repeat):
        for words in sorted(times, reverse=bool(round_ % 2)):
            times[words].append(step_ms(words, options.steps))
    return {words: statistics.median(taken) for words, taken in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kscope", default=str(HERE.parent / "build/kscope"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few settings: does it work at all")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="tune-search-") as work:
        document, tuned_s = tuned(options, os.path.join(work, "tune"))
    best, exhaustive_s, times = exhaustive(options)
    is_proven = document["whole"]["fate"] == "kept"
    own = words_of(document["setting"]) if is_proven else ()
    medians = compare(options, best, own)

    share, slower = tuned_s / exhaustive_s, medians[own] / medians[best]
    print(f"as it is     {times[()]:8.2f} ms a step")
    cost = f"{len(times)} settings, {exhaustive_s:.0f} s"
    print(f"exhaustive   {medians[best]:8.2f} ms a step, {cost}: {' '.join(best)}")
    cost = f"{document['processes']} processes, {tuned_s:.0f} s"
    print(f"kscope tune  {medians[own]:8.2f} ms a step, {cost}: {' '.join(own) or 'as it is'}")
    print(f"tuned / best {slower:.3f}; time {share:.3f} of the exhaustive search's")
    is_good = slower <= SLOWER_MAX and (options.quick or share <= TIME_SHARE_MAX)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
