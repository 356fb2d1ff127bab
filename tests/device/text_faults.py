#!/usr/bin/env python3
"""Plants each fault of examples/train_text.py and holds what kscope says of it against the clock.

    text_faults.py KSCOPE OUT [--device cpu] [--size SIZE] [--repeat N] [--traces] [FAULT...]

For each fault: the step time with and without it, when nobody records; then the faulty program
under `kscope run`, and the JSON report of its trace. The fault must be the first finding, and its
saving must hold the difference of the two step times, within 2 % of the faulty step. The program
without faults is recorded once, and must show none of the ids. Where the finding names a line, that
line must lie in the function which holds the fault's mark; a finding without a line is only noted,
and so are the lines of SETTINGS: what they slow down is elsewhere.

OUT receives text_faults.txt and text_faults.json, with --traces the traces too. The last line is
`N of M checks missed`; the exit status is 0 when N is 0 and something was checked.
"""

import argparse
import ast
import json
import pathlib
import re
import shutil
import statistics
import sys
import tempfile

from commands import Failed, call

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "train_text.py"
FAULTS = (
    "input.starved",
    "host.python_gap",
    "sync.host",
    "launch.bound",
    "precision.fp32_matmul",
    "copy.pageable",
    "copy.many_small",
    "device.round_trip",
)
ON_CPU = FAULTS[:2]  # what these cost shows there
ADVISED_ON_CPU = FAULTS[:1]  # the rules of the others look at steps on a GPU
SETTINGS = ("input.starved", "precision.fp32_matmul")
WINDOW = "5:1:6"
STEPS_RECORDED = 36  # of the program: the window, two for stacks, 21 to be timed without
STACKS = ".stacks.pt.trace.json.gz"
TOLERANCE = 0.02  # of the faulty step
HEAD = ("fault", "good ms", "bad ms", "saved ms", "trace ms", "first finding", "saving ms", "line")


class Table:
    def __init__(self, out):
        self.rows = []
        self.missed = []
        self.checked = 0
        self._text = open(out / "text_faults.txt", "w", encoding="utf-8")

    def say(self, text):
        print(text, flush=True)
        self._text.write(f"{text}\n")
        self._text.flush()

    def check(self, is_good, text):
        self.checked += 1
        if not is_good:
            self.missed.append(text)
            self.say(f"  MISSED: {text}")

    def show(self):
        lines = [HEAD, *(row_text(row) for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            self.say("  ".join(cells).rstrip())
        for text in self.missed:
            self.say(f"missed: {text}")
        self.say(f"{len(self.missed)} of {self.checked} checks missed")


def row_text(row):
    numbers = (row[key] for key in ("good_ms", "bad_ms", "saved_ms", "trace_ms"))
    cells = ["-" if number is None else f"{number:.2f}" for number in numbers]
    saving = row["saving_ms"]
    interval = f"[{saving[0]:.2f}, {saving[1]:.2f}]" if saving else "-"
    return (row["fault"], *cells, row["first"] or "-", interval, row["line"] or "-")


def marked_lines(program, fault):
    """First and last line of the function that holds the mark of the fault, and the mark's."""
    text = program.read_text(encoding="utf-8")
    mark = re.compile(rf"# fault: {re.escape(fault)}$")
    numbers = [n for n, line in enumerate(text.splitlines(), 1) if mark.search(line)]
    if len(numbers) != 1:
        raise Failed(f"{program.name} has {len(numbers)} marks of {fault}, not one")
    defs = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    around = [node for node in defs if node.lineno <= numbers[0] <= node.end_lineno]
    inner = max(around, key=lambda node: node.lineno)
    return inner.lineno, inner.end_lineno, numbers[0]


class Bench:
    def __init__(self, options, work):
        self.options = options
        self.work = work
        self.program = [str(options.program), "--device", options.device]
        self.program += ["--size", options.size] if options.size else []

    def unprofiled_ms(self, fault=None):
        """Step time and device of the program when nobody records."""
        words = ["--steps", self.options.steps, *(["--fault", fault] if fault else [])]
        text = call(sys.executable, *self.program, *words)
        median = re.search(r"^median_step_ms ([0-9.]+)\b", text, re.MULTILINE)
        device = re.search(r"^device (.+)$", text, re.MULTILINE)
        if not median or not device:
            raise Failed("the program names no step time")
        return float(median[1]), device[1]

    def report(self, fault=None):
        """What kscope says of a recorded run."""
        name = fault or "none"
        folder = self.work / name
        words = ["--steps", STEPS_RECORDED, *(["--fault", fault] if fault else [])]
        command = [self.options.kscope, "run", "--steps", WINDOW, "--out", folder]
        call(*command, sys.executable, *self.program, *words)
        traces = sorted(folder.glob("*.pt.trace.json.gz"))
        windows = [trace for trace in traces if not trace.name.endswith(STACKS)]
        if len(windows) != 1:
            raise Failed(f"one window expected, {len(windows)} found")
        if self.options.traces:
            for trace in traces:
                end = STACKS if trace.name.endswith(STACKS) else ".pt.trace.json.gz"
                shutil.copy(trace, self.options.out / f"{name}{end}")
        return json.loads(call(self.options.kscope, "report", "--json", folder))


def step_ms(doc):
    times = sorted(step["dur_ns"] for step in doc["steps"] if step["complete"])
    return times[len(times) // 2] / 1e6 if times else None


def check_saving(table, row):
    low, high = row["saving_ms"]
    room_ms = TOLERANCE * row["bad_ms"]
    off_ms = max(low - row["saved_ms"], row["saved_ms"] - high, 0)
    table.check(
        off_ms <= room_ms,
        f"{row['fault']}: saving [{low:.2f}, {high:.2f}] ms does not hold the measured "
        f"{row['saved_ms']:.2f} ms: off by {off_ms:.2f}, allowed {room_ms:.2f}",
    )


def check_line(table, row, where, program):
    if not where.get("file") or not where.get("line"):
        row["line"] = "none"
        return
    place = row["line"] = f"{pathlib.Path(where['file']).name}:{where['line']}"
    if row["fault"] in SETTINGS:
        return
    first, last, mark = marked_lines(program, row["fault"])
    is_there = place.startswith(f"{program.name}:") and first <= where["line"] <= last
    table.check(is_there, f"{row['fault']}: {place} named, marked is line {mark} ({first}-{last})")


def check_finding(table, row, doc, program):
    ids = [finding["id"] for finding in doc["findings"]]
    row["findings"], row["trace_ms"] = ids, step_ms(doc)
    row["first"] = ids[0] if ids else None
    table.check(row["first"] == row["fault"], f"{row['fault']}: findings are {ids}")
    found = [finding for finding in doc["findings"] if finding["id"] == row["fault"]]
    if not found:
        table.check(False, f"{row['fault']}: no saving to compare with {row['saved_ms']:.2f} ms")
        return
    saving = found[0]["saving_ns_per_step"]
    row["saving_ms"] = [saving["low"] / 1e6, saving["high"] / 1e6]
    check_saving(table, row)
    check_line(table, row, found[0].get("where") or {}, program)


def try_fault(bench, table, fault):
    keys = ("good_ms", "bad_ms", "saved_ms", "trace_ms", "first", "saving_ms", "line")
    row = dict.fromkeys(keys) | {"fault": fault, "findings": []}
    table.rows.append(row)
    try:
        # In turn, for a machine that gets slower or faster with time.
        turns = range(bench.options.repeat)
        times = [(bench.unprofiled_ms()[0], bench.unprofiled_ms(fault)[0]) for _ in turns]
        row["good_ms"], row["bad_ms"] = map(statistics.median, zip(*times, strict=True))
        row["saved_ms"] = row["bad_ms"] - row["good_ms"]
        check_finding(table, row, bench.report(fault), bench.options.program)
    except (Failed, ValueError, KeyError, TypeError) as failure:
        table.check(False, f"{fault}: {type(failure).__name__}: {failure}")
    table.say("  " + "  ".join(row_text(row)))


def try_repaired(bench, table, faults):
    try:
        doc = bench.report()
        ids = [finding["id"] for finding in doc["findings"]]
        table.say(f"  without faults: {step_ms(doc) or 0:.2f} ms in the trace, findings {ids}")
        for fault in faults:
            table.check(fault not in ids, f"{fault}: found in the program without faults")
    except (Failed, ValueError, KeyError, TypeError) as failure:
        table.check(False, f"without faults: {type(failure).__name__}: {failure}")


def try_all(bench, table, asked):
    """The faults in the order asked, or those that the device can show."""
    good_ms, device = bench.unprofiled_ms()
    table.say(f"on {device}, {good_ms:.2f} ms a step without faults; {'  '.join(HEAD)}")
    faults = asked or (ADVISED_ON_CPU if device == "cpu" else FAULTS)
    if len(faults) < len(FAULTS) and not asked:
        table.say(f"  left out, they need a GPU: {', '.join(FAULTS[len(faults) :])}")
    for fault in faults:
        try_fault(bench, table, fault)
    try_repaired(bench, table, faults)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kscope", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="default: all")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--size", help="as of the program")
    parser.add_argument("--steps", type=int, default=60, help="of an unprofiled run")
    parser.add_argument("--repeat", type=int, default=1, help="unprofiled runs of each kind")
    parser.add_argument("--traces", action="store_true", help="keep the traces in OUT")
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    unknown = sorted(set(options.faults) - set(FAULTS))
    if unknown:
        parser.error(f"no such fault: {', '.join(unknown)}")
    options.kscope = options.kscope.resolve()
    return options


def main():
    options = parse_options()
    options.out.mkdir(parents=True, exist_ok=True)
    table = Table(options.out)
    with tempfile.TemporaryDirectory(prefix="text-faults-") as work:
        try:
            try_all(Bench(options, pathlib.Path(work)), table, tuple(options.faults))
        except Failed as failure:
            table.check(False, str(failure))
    table.show()
    (options.out / "text_faults.json").write_text(json.dumps(table.rows, indent=1) + "\n")
    return 1 if table.missed or not table.checked else 0


if __name__ == "__main__":
    sys.exit(main())
