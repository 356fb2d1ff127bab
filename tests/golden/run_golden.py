#!/usr/bin/env python3
"""Golden cases: what the program says about small inputs, as text that people can read.

A case is a folder AREA/NAME (of rules: AREA/RULE/NAME) with its inputs, `cmd`, `expected.txt` and
`why.md` (two lines: what is special about the input, and what must come out). Each line of `cmd`
is a command line of kscope, run inside the folder. A line that ends in `=> KEY COLUMN...` shows
these columns of a list in the JSON with their exact values; COLUMN=VALUE among them keeps the rows
that have this value.

Use: tests/golden/run_golden.py [CASE...]            run, print differences
     tests/golden/run_golden.py --bless CASE|all     write expected.txt anew
"""

import argparse
import difflib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))


def list_cases():
    """Names of all cases, AREA/NAME."""
    return sorted(str(path.parent.relative_to(GOLDEN)) for path in GOLDEN.glob("*/**/cmd"))


def run_program(words, folder):
    env = {key: value for key, value in os.environ.items() if not key.endswith("COLOR")}
    env.update(LC_ALL="C.UTF-8", TERM="dumb", XDG_CACHE_HOME=os.devnull)
    return subprocess.run(
        [PROGRAM, *words],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


def look_up(row, column):
    for key in column.split("."):
        row = row.get(key) if isinstance(row, dict) else None
    return row


def as_cell(value):
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)


def select(document, words):
    """Columns of a list of the document, or of an object, as an aligned table."""
    rows = document[words[0]]
    rows = rows if isinstance(rows, list) else [rows]
    columns = [word for word in words[1:] if "=" not in word]
    for column, _, value in (word.partition("=") for word in words[1:] if "=" in word):
        rows = [row for row in rows if as_cell(look_up(row, column)) == value]
    table = [columns] + [[as_cell(look_up(row, column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in table
    )


def run_line(line, folder):
    command, _, selection = line.partition("=>")
    run = run_program(shlex.split(command), folder)
    output = run.stdout
    if selection and run.returncode == 0:
        output = select(json.loads(output), selection.split())
    text = f"$ kscope {line}\n{output}{run.stderr}"
    return text + (f"[exit {run.returncode}]\n" if run.returncode else "")


def run_case(folder):
    """Everything that the commands of a case print."""
    lines = (folder / "cmd").read_text(encoding="utf-8").splitlines()
    text = "\n".join(run_line(line, folder) for line in lines if line.strip())
    return re.sub(r"kscope \d+\.\d+\.\d+", "kscope VERSION", text)


def difference(folder):
    """Unified difference between expected and real output, "" when there is none."""
    expected = folder / "expected.txt"
    before = expected.read_text(encoding="utf-8") if expected.exists() else ""
    lines = difflib.unified_diff(
        before.splitlines(True), run_case(folder).splitlines(True), "expected", "now"
    )
    return "".join(lines)


def main(arguments):
    parser = argparse.ArgumentParser(description="Runs golden cases.")
    parser.add_argument("--bless", action="store_true", help="write expected.txt anew")
    parser.add_argument("cases", nargs="*", help="AREA/NAME; all by default")
    options = parser.parse_args(arguments)
    known = list_cases()
    cases = known if options.cases in ([], ["all"]) else options.cases
    if options.bless and not options.cases:
        parser.error("name the case to bless, or all")
    unknown = sorted(set(cases) - set(known))
    if unknown:
        parser.error(f"no such case: {' '.join(unknown)}")
    bad = 0
    for case in cases:
        folder = GOLDEN / case
        if options.bless:
            (folder / "expected.txt").write_text(run_case(folder), encoding="utf-8")
            continue
        text = difference(folder)
        bad += bool(text)
        print(f"{case}: {'differs' if text else 'ok'}")
        sys.stdout.write(text)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
