#!/usr/bin/env python3
"""Writes the golden cases of all rules: tests/support/write_rule_cases.py [FOLDER]

Inputs are drawn from their descriptions, and expected.txt is what these say must be found: the
program is not asked. `make golden-rules` calls this.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "tests" / "golden" / "rules"
sys.path[:0] = [str(ROOT / "tests" / "golden"), str(ROOT / "tests" / "capture")]

import run_golden  # noqa: E402
from rule_cases import (  # noqa: E402
    curves,
    device,
    host,
    loops,
    process,
    ranks,
    without_gpu,
)
from rule_cases.case import COLUMNS  # noqa: E402

MODULES = (host, device, loops, ranks, process, curves, without_gpu)


def all_cases():
    return [case for module in MODULES for rule in module.RULES for case in rule()]


def nested(columns, cells):
    """A row as the report has it."""
    row = {}
    for column, cell in zip(columns, cells, strict=True):
        *parents, last = column.split(".")
        inner = row
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = cell
    return row


def commands(case):
    report = f"report --json {case.inputs} =>"
    return (
        f"{report} findings {' '.join(COLUMNS)}",
        f"{report} checked id={case.rule} id state",
    )


def expected(case):
    findings = [nested(COLUMNS, finding.cells()) for finding in case.findings]
    is_found = any(finding.id == case.rule for finding in case.findings)
    checked = [] if is_found else [{"id": case.rule, "state": case.state}]
    document = {"findings": findings, "checked": checked}
    texts = (
        f"$ kscope {line}\n{run_golden.select(document, line.partition('=>')[2].split())}"
        for line in commands(case)
    )
    return "\n".join(texts)


def files(case):
    """Name and text, or bytes, of each file of a case."""
    inputs = {
        name: content if isinstance(content, (str, bytes)) else content.text()
        for name, content in case.files.items()
    }
    lines = "".join(line + "\n" for line in commands(case))
    return inputs | {"cmd": lines, "expected.txt": expected(case), "why.md": case.why}


def write(target):
    for case in all_cases():
        folder = target / case.rule / case.kind
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files(case).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else RULES)
