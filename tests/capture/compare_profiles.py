"""Runs a program of function_programs.py under cProfile and under ours, and prints what differs.

Use: compare_profiles.py PROGRAM    (PYTHONPATH leads to the package kinetoscope)

One JSON document: functions, calls, different [[label, cProfile's, ours]], times [[label, own and
cumulative of cProfile, of ours]].
"""

import cProfile
import gc
import json
import pstats
import re
import sys

import function_programs
from kinetoscope import FunctionProfiler

ROUNDS = 5
SHARE_COMPARED = 0.1
# cProfile names a type by its address, which says nothing, and a method of C that a class of Python
# hides by that class's method.
ADDRESS = re.compile(r" of type object at 0x[0-9a-f]+>")
HIDDEN = re.compile(r"<function socket.close at 0x[0-9a-f]+>")
OWN = ("'_lsprof.Profiler'", "'kinetoscope.FunctionProfiler'")


def name_of(name):
    return HIDDEN.sub("<method 'close' of '_socket.socket' objects>", ADDRESS.sub(">", name))


def plain(stats):
    """Without the profiler's own calls and without addresses."""
    found = {}
    for (file, line, name), (cc, nc, tt, ct, callers) in stats.items():
        if any(own in name for own in OWN):
            continue
        label = f"{file}:{line}:{name_of(name)}"
        edges = {
            f"{f}:{n}:{name_of(c)}": value[:2]
            for (f, n, c), value in callers.items()
            if not any(own in c for own in OWN)
        }
        found[label] = (cc, nc, tt, ct, edges)
    return found


def only_of_program(stats):
    """Of threads cProfile sees what the program wraps, ours the thread's own functions as well."""
    file = function_programs.__file__
    found = {k: v for k, v in stats.items() if k.startswith(file) and ":threads" not in k}
    return {
        label: (*value[:4], {k: v for k, v in value[4].items() if k in found})
        for label, value in found.items()
    }


def by_cprofile(program):
    stats, parts = None, []
    profile = cProfile.Profile()
    if program is function_programs.threads:

        def wrap(target):
            def run():
                part = cProfile.Profile()
                part.runcall(target)
                parts.append(part)

            return run

        program(wrap)
        stats = pstats.Stats(*parts).stats
    else:
        profile.enable()
        program()
        profile.disable()
        profile.create_stats()
        stats = profile.stats
    return plain(stats)


def by_ours(program):
    profile = FunctionProfiler()
    profile.start()
    program()
    profile.stop()
    return plain(profile.stats())


def counts_of(entry):
    return entry and (*entry[:2], entry[4])


def best_times(rounds):
    """Shortest (own, cumulative) time of each function over the rounds."""
    return {k: [min(r[k][i] for r in rounds if k in r) for i in (2, 3)] for k in rounds[0]}


def main():
    program = getattr(function_programs, sys.argv[1])
    program()
    program()  # what is done once has been done
    gc.disable()
    theirs, ours = [], []
    for _ in range(ROUNDS):
        gc.collect()
        theirs.append(by_cprofile(program))
        gc.collect()
        ours.append(by_ours(program))
    if program is function_programs.threads:
        theirs = [only_of_program(stats) for stats in theirs]
        ours = [only_of_program(stats) for stats in ours]
    a, b = theirs[-1], ours[-1]
    different = [
        [label, a.get(label), b.get(label)]
        for label in sorted({*a, *b})
        if counts_of(a.get(label)) != counts_of(b.get(label))
    ]
    times_a, times_b = best_times(theirs), best_times(ours)
    total = sum(own for own, _ in times_a.values())
    times = [
        [label, *times_a[label], *times_b[label]]
        for label in times_a
        if label in times_b and times_a[label][0] > SHARE_COMPARED * total
    ]
    calls = sum(v[1] for v in b.values())
    print(json.dumps({"functions": len(b), "calls": calls, "different": different, "times": times}))


if __name__ == "__main__":
    main()
