#!/usr/bin/env python3
"""Records each fault program, and holds the advice against the time that its repair saves.

    run_faults.py KSCOPE OUT [--device cpu] [--repeat N] [--docs docs/faults.md] [PROGRAM...]

For each program of catalog.py: `kscope run` of the twin with all faults, and of the repaired one;
and unless `--repeat 0`, the step time of both when nobody records, in turn, as medians. Of several
faults at once each is repaired alone, too. A row a fault: was it found (or one of the ids that mean
the same), at which place, with the right cause; its saving, and what the repair saved; does the
repaired twin show it. OUT receives faults.json and faults.txt; `--docs` puts the rows into the
table of the device in that page, where those of other programs stay. Faults whose rule this kscope
does not have are marked, and are no failure, nor are programs of more ranks than there are GPUs.
`--jobs N` starts so many programs at once, which take turns behind their imports (TWIN_LOCK of
twin.py); `--keep FOLDER` keeps the recordings.

The exit status is 1 when a fault whose rule is there was not found, or a repaired twin shows it.
Times are for the table alone: a machine that others use says little of them.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile

from catalog import ALSO, PROGRAMS, RISKS

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "device"))

from commands import Failed, call  # noqa: E402

TOLERANCE = 0.02  # of the faulty step
HEAD = ("program", "fault", "found", "place", "saving ms", "measured ms", "inside", "repaired")
ORDER = {program.name: index for index, program in enumerate(PROGRAMS)}


class Bench:
    def __init__(self, options, work):
        self.options = options
        self.work = work

    def _call(self, program, before, *words):
        """What the program prints, as a word of the command `before`."""
        env = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
        env |= {"OMP_NUM_THREADS": str(program.threads)} if program.threads else {}
        env |= {"TWIN_LOCK": str(self.work / ".lock")} if self.options.jobs > 1 else {}
        command = program.command(sys.executable, HERE / "programs" / f"{program.name}.py")
        # What CUDA's compilers made for one run would be there for the next one.
        with tempfile.TemporaryDirectory(prefix="faults-cuda-") as cache:
            env |= {"CUDA_CACHE_PATH": cache}
            return call(*before, *command, "--device", self.options.device, *words, env=env)

    def missing(self, program):
        """What the machine lacks to run the program, or None."""
        if self.options.device == "cpu" or program.ranks == 1:
            return None
        code = "import torch; print(torch.cuda.device_count())"
        gpus = int(call(sys.executable, "-c", code))
        return f"{program.ranks} ranks, {gpus} GPUs" if gpus < program.ranks else None

    def step_ms(self, program, *words):
        text = self._call(program, (), *words)
        found = re.search(r"^step_ms ([0-9.]+)$", text, re.MULTILINE)
        if not found:
            raise Failed(f"{program.name} names no step time")
        return float(found[1])

    def times_ms(self, program, *kinds):
        """Medians of the step times of each kind, which run in turn."""
        rounds = range(self.options.repeat)
        times = [[self.step_ms(program, *kind) for kind in kinds] for _ in rounds]
        return [statistics.median(column) for column in zip(*times, strict=True)]

    def report(self, program, twin):
        folder = self.work / f"{program.name}{twin}"
        run = [self.options.kscope, "run", "--steps", program.window, "--out", folder]
        run += ["--step-mark", program.step_mark] if program.step_mark else []
        self._call(program, run, "--steps", program.recorded_steps, twin)
        return json.loads(call(self.options.kscope, "report", "--json", folder))


def state_of(doc, fault):
    """`unknown`: this kscope has no such rule."""
    states = {check["id"]: check["state"] for check in doc["checked"]}
    return states.get(fault, "found" if fault in ids_of(doc) else "unknown")


def ids_of(doc):
    return [finding["id"] for finding in doc["findings"]]


def find(doc, fault):
    """The finding that names the fault, and its place in the report: that of the first one that
    names the same time."""
    ids = ids_of(doc)
    named = [ids.index(wanted) for wanted in (fault, *ALSO.get(fault, ())) if wanted in ids]
    return (doc["findings"][named[0]], min(named) + 1) if named else (None, None)


def new_row(program, fault):
    keys = ("found", "place", "cause", "low_ms", "high_ms", "bad_ms", "saved_ms", "repaired")
    return {"program": program.name, "fault": fault, **dict.fromkeys(keys), "misses": []}


def judge(row, cause, bad, good):
    """What both reports say of the fault."""
    fault = row["fault"]
    finding, row["place"] = find(bad, fault)
    is_there = state_of(bad, fault) != "unknown"
    if finding:
        row["found"], row["cause"] = finding["id"], finding.get("cause")
        saving = finding["saving_ns_per_step"]
        row["low_ms"], row["high_ms"] = saving["low"] / 1e6, saving["high"] / 1e6
    elif is_there:
        row["misses"].append(f"not found; findings are {ids_of(bad)}")
    if finding and finding["id"] == fault and cause and row["cause"] != cause:
        row["misses"].append(f"cause is {row['cause']}, not {cause}")
    repaired, _ = find(good, fault)
    row["repaired"] = repaired["id"] if repaired else "silent"
    if repaired:
        row["misses"].append(f"the repaired twin shows {repaired['id']}")
    row["is_there"] = is_there


def measure(bench, program, rows):
    faults = list(program.faults)
    kinds = [("--bad",), ("--good",)]
    if len(faults) > 1:
        kinds = [("--bad",), *(("--fix", fault) for fault in faults)]
    bad_ms, *repaired_ms = bench.times_ms(program, *kinds)
    for row, ms in zip(rows, repaired_ms, strict=True):
        row["bad_ms"], row["saved_ms"] = bad_ms, bad_ms - ms


def try_program(bench, program):
    rows = [new_row(program, fault) for fault in program.faults]
    try:
        missing = bench.missing(program)
        if missing:
            for row in rows:
                row["left_out"] = missing
            return rows
        bad, good = bench.report(program, "--bad"), bench.report(program, "--good")
        for row in rows:
            judge(row, program.faults[row["fault"]], bad, good)
        if bench.options.repeat:
            measure(bench, program, rows)
    except (Failed, ValueError, KeyError, TypeError) as failure:
        for row in rows:
            row["misses"].append(f"{type(failure).__name__}: {failure}")
    return rows


def say(rows):
    for row in rows:
        print("  ".join(cells_of(row)), flush=True)
        for miss in row["misses"]:
            print(f"  MISSED: {miss}", flush=True)


def try_programs(bench):
    """All rows, in the order of the catalog; what is there lies in OUT after each program."""
    rows = []
    options = bench.options
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        tried = [pool.submit(try_program, bench, program) for program in chosen(options)]
        for done in concurrent.futures.as_completed(tried):
            say(done.result())
            rows = [row for other in tried if other.done() for row in other.result()]
            (options.out / "faults.json").write_text(json.dumps(rows, indent=1) + "\n")
    return rows


# ---------------------------------------------------------------- the table


def inside(row):
    if row["saved_ms"] is None or row["low_ms"] is None:
        return "-"
    if row["fault"] in RISKS:
        return "no time"
    room_ms = TOLERANCE * row["bad_ms"]
    off_ms = max(row["low_ms"] - row["saved_ms"], row["saved_ms"] - row["high_ms"], 0)
    return "yes" if off_ms <= room_ms else f"off by {off_ms:.1f}"


def found_text(row):
    if row.get("left_out"):
        return f"left out: {row['left_out']}"
    if row.get("is_there") is None:
        return "failed"
    if not row["found"]:
        return "no" if row["is_there"] else "no rule yet"
    if row["found"] != row["fault"]:
        return f"as {row['found']}"
    return f"yes ({row['cause']})" if row["cause"] else "yes"


def cells_of(row):
    has_saving = row["low_ms"] is not None
    measured = "-" if row["saved_ms"] is None else f"{row['saved_ms']:.1f} of {row['bad_ms']:.1f}"
    return (
        row["program"],
        row["fault"],
        found_text(row),
        str(row["place"] or "-"),
        f"{row['low_ms']:.1f} to {row['high_ms']:.1f}" if has_saving else "-",
        measured,
        inside(row),
        row["repaired"] or "-",
    )


def line_of(cells):
    return f"| {' | '.join(cells)} |"


def table_of(rows, others=()):
    """`others`: lines of programs that are in no row."""
    lines = sorted([*(line_of(cells_of(row)) for row in rows), *others], key=place_of)
    return "\n".join([line_of(HEAD), "|" + "---|" * len(HEAD), *lines])


def is_first(place, others):
    """Nothing stands before the finding but what the program's other faults are."""
    return place is not None and place - 1 == sum(other < place for other in others)


def summary_of(lines):
    """What the lines of the table say together, as two sentences."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rows = [cells for cells in rows if not cells[2].startswith(("left out", "no rule", "failed"))]
    places = [int(cells[3]) if cells[3].isdigit() else None for cells in rows]
    firsts = 0
    for row, place in zip(rows, places, strict=True):
        beside = [
            other
            for cells, other in zip(rows, places, strict=True)
            if cells[0] == row[0] and cells is not row and other is not None
        ]
        firsts += is_first(place, beside)
    found = sum(place is not None for place in places)
    judged = [cells[6] for cells in rows if cells[6] == "yes" or cells[6].startswith("off")]
    return (
        f"{found} of {len(rows)} faults are found, {firsts} of them first, or behind other faults"
        f" of the same program only; {sum(place is not None and place <= 3 for place in places)}"
        f" within three. {judged.count('yes')} of {len(judged)} savings hold."
    )


def place_of(line):
    """The place in the catalog of the program that a line of the table is about, if any."""
    return ORDER.get(line.split("|")[1].strip()) if line.startswith("|") else None


def rewrite(page, device, rows):
    """Puts the rows into the table of the device, where those of other programs stay."""
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- faults: {device} -->", "<!-- end -->"
    before, mark, rest = text.partition(begin)
    old, end_mark, after = rest.partition(end)
    if not mark or not end_mark:
        raise Failed(f"{page} has no place between {begin} and {end}")
    new = {None, *(ORDER[row["program"]] for row in rows)}
    others = [line for line in old.splitlines() if place_of(line) not in new]
    table = table_of(rows, others)
    summary = summary_of([line for line in table.splitlines() if place_of(line) is not None])
    page.write_text(f"{before}{begin}\n{summary}\n\n{table}\n{end}{after}", encoding="utf-8")


def chosen(options):
    names = options.names or [
        program.name for program in PROGRAMS if options.device == "cuda" or not program.needs_gpu
    ]
    return [PROGRAMS[ORDER[name]] for name in names]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kscope", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="PROGRAM")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--repeat", type=int, default=3, help="unprofiled runs of each twin")
    parser.add_argument("--jobs", type=int, default=1, help="programs at once")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="for the recordings")
    parser.add_argument("--docs", type=pathlib.Path, help="page with the tables")
    options = parser.parse_intermixed_args()
    unknown = set(options.names) - {program.name for program in PROGRAMS}
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    options.kscope = options.kscope.resolve()
    return options


def main():
    options = parse_options()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="faults-") as work:
        rows = try_programs(Bench(options, options.keep or pathlib.Path(work)))
    table = table_of(rows)
    (options.out / "faults.txt").write_text(table + "\n", encoding="utf-8")
    print(summary_of([line for line in table.splitlines() if place_of(line) is not None]))
    if options.docs:
        rewrite(options.docs, options.device, rows)
    missed = sum(bool(row["misses"]) for row in rows)
    print(f"{missed} of {len(rows)} faults missed")
    return 1 if missed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
