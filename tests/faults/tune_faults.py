#!/usr/bin/env python3
"""Tunes the fault programs, and holds what `kscope tune` gains against what the repair gains.

    tune_faults.py KSCOPE OUT [--device cpu|cuda] [--repeat N] [--max-seconds N] [PROGRAM...]

For each program of TUNED: `kscope tune --json` on the twin with the fault, with the group of
changes that repairs it. Then the faulty twin, the repaired one, and the faulty one under `kscope
run --tuned` with what was kept run in turn, each alone and timed by itself: medians. A row a
program: the repair's gain (of the faulty step's time), the tuner's, the share of the first that the
second is, what the tuner itself said of its gain, and what was kept. OUT receives tune.json and
tune.txt.

The exit status is 1 when the tuner gets less than SHARE_MIN of a gain that is worth it.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

from catalog import PROGRAMS

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "device"))

from commands import Failed, call  # noqa: E402

SHARE_MIN = 0.9
GAIN_MIN = 0.03  # of the step: less is no gain that a tuner has to find
# Program -> what is tried, and steps of a twin's own run. All have steps without end when tuned.
TUNED = {
    "input_storage": ("dataloader", 60),
    "input_worker_start": ("dataloader", 50),
    "fp32_products": ("precision=tf32", 40),
    "layout_convolutions": ("layout", 40),
    "optimizer_loop": ("optimizer", 60),
    "cudnn_retuning": ("cudnn", 40),
    "launch_cells": ("compile", 40),
    "launch_compiled": ("compile", 60),
    "pointwise_chain": ("compile", 40),
}
ENDLESS = "1000000"
HEAD = (
    "program",
    "step ms",
    "repaired",
    "tuned",
    "repair's gain",
    "tuner's",
    "share",
    "it said",
    "kept",
)
UNSEEN = "1000000:1:1"  # steps of a window that no run reaches


def command_of(program, *words):
    path = HERE / "programs" / f"{program.name}.py"
    return [*program.command(sys.executable, path), *words]


def environment(program):
    env = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    return env | ({"OMP_NUM_THREADS": str(program.threads)} if program.threads else {})


def step_ms(options, program, kind, steps):
    """`kind`: "--bad", "--good", or "tuned": the faulty one with what the tuner kept."""
    twin = "--bad" if kind == "tuned" else kind
    words = command_of(program, twin, "--device", options.device, "--steps", str(steps))
    env = {**environment(program), "KSCOPE_PYTHON": sys.executable}
    if kind == "tuned":
        tuned = folder_of(options, program) / "tuned.conf"
        out = folder_of(options, program) / "run"
        head = [options.kscope, "run", "--steps", UNSEEN, "--no-stacks", "--tuned", str(tuned)]
        words = [*head, "--out", str(out), "--", *words]
    text = call(*words, env=env)
    found = re.search(r"^step_ms ([0-9.]+)$", text, re.MULTILINE)
    if not found:
        raise Failed(f"{program.name} names no step time")
    return float(found[1])


def folder_of(options, program):
    return options.out / f"tune-{program.name}"


def times_ms(options, program, steps, kinds):
    """Medians of programs that are run in turn."""
    times = {kind: [] for kind in kinds}
    for round_ in range(options.repeat):
        for kind in kinds if round_ % 2 == 0 else reversed(kinds):
            times[kind].append(step_ms(options, program, kind, steps))
    return {kind: statistics.median(times[kind]) for kind in kinds}


def tune(options, program, what):
    words = ["tune", "--json", "-q", "--what", what, "--max-seconds", str(options.max_seconds)]
    folder = folder_of(options, program)
    script = command_of(program, "--bad", "--device", options.device, "--steps", ENDLESS)
    env = {**environment(program), "KSCOPE_PYTHON": sys.executable}
    done = subprocess.run(
        [options.kscope, *words, "-o", str(folder), "--", *script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3 * options.max_seconds,
        check=False,
        env=env,
    )
    if done.returncode:
        raise Failed(f"exit status {done.returncode}: {done.stderr.strip()[-200:]}")
    return json.loads(done.stdout)


def row_of(options, program):
    what, steps = TUNED[program.name]
    row = {"program": program.name, "what": what}
    document = tune(options, program, what)
    whole = document["whole"]
    is_kept = whole["fate"] == "kept"
    kinds = ("--bad", "--good", "tuned") if is_kept else ("--bad", "--good")
    times = times_ms(options, program, steps, kinds)
    bad_ms, good_ms = times["--bad"], times["--good"]
    row |= {
        "bad_ms": bad_ms,
        "good_ms": good_ms,
        "tuned_ms": times.get("tuned", bad_ms),
        "gain": 1 - good_ms / bad_ms,
        "tuned_gain": 1 - times.get("tuned", bad_ms) / bad_ms,
        "told_gain": 1 - 1 / whole["speedup"]["value"] if is_kept else 0.0,
        "setting": document["setting"] if is_kept else {},
        "tries": document["tries"],
        "seconds": document["seconds"],
    }
    row["share"] = row["tuned_gain"] / row["gain"] if row["gain"] > GAIN_MIN else None
    return row


def cells_of(row):
    if "failure" in row:
        return (row["program"], *["-"] * 7, f"failed: {row['failure'][:120]}")
    return (
        row["program"],
        f"{row['bad_ms']:.2f}",
        f"{row['good_ms']:.2f}",
        f"{row['tuned_ms']:.2f}",
        f"{row['gain']:.0%}",
        f"{row['tuned_gain']:.0%}",
        "-" if row["share"] is None else f"{row['share']:.0%}",
        f"{row['told_gain']:.0%}",
        " ".join(f"{name}={value}" for name, value in row["setting"].items()) or "nothing",
    )


def table_of(rows):
    lines = [HEAD, ["---"] * len(HEAD), *map(cells_of, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def is_missed(row):
    return "failure" in row or (row["share"] is not None and row["share"] < SHARE_MIN)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kscope")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--max-seconds", type=int, default=300)
    options = parser.parse_intermixed_args()
    unknown = set(options.programs) - set(TUNED)
    if unknown:
        parser.error(f"not among the tuned programs: {', '.join(sorted(unknown))}")
    return options


def main():
    options = parse_options()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for program in PROGRAMS:
        if program.name not in (options.programs or TUNED) or program.name not in TUNED:
            continue
        try:
            rows.append(row_of(options, program))
        except (Failed, ValueError, KeyError, subprocess.TimeoutExpired) as failure:
            rows.append({"program": program.name, "failure": str(failure)})
        print(" ".join(cells_of(rows[-1])), flush=True)
        (options.out / "tune.json").write_text(json.dumps(rows, indent=1))
    (options.out / "tune.txt").write_text(table_of(rows) + "\n")
    print(table_of(rows))
    missed = [row["program"] for row in rows if is_missed(row)]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
