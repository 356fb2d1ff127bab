"""What tests of the advice share: reports, the rules that there are, and the cases and the code of
fixes that the C tests note (tests/unit/facts_fixture.h)."""

import contextlib
import json
import lzma
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
UNIT = ROOT / "tests" / "unit"
KSCOPE = pathlib.Path(os.environ.get("KSCOPE_BIN", ROOT / "build" / "kscope"))


def refuse(word):
    raise ValueError(f"{word} is no JSON")


def report_of(paths, text=None):
    if text is None:
        command = [KSCOPE, "report", "--json", *paths]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        text = done.stdout
    return json.loads(text, parse_constant=refuse)


@contextlib.contextmanager
def unpacked(paths):
    """Those packed by xz are unpacked into a folder that goes away again."""
    with tempfile.TemporaryDirectory() as folder:
        plain = []
        for path in paths:
            if path.suffix == ".xz":
                target = pathlib.Path(folder) / path.stem
                target.write_bytes(lzma.decompress(path.read_bytes()))
                path = target
            plain.append(path)
        yield plain


def rule_ids():
    """All rules, as a report names them."""
    doc = report_of([DATA / "A.healthy.good.pt.trace.json.gz"])
    found = [finding["id"] for finding in doc["findings"]]
    return sorted(found + [check["id"] for check in doc["checked"]])


def read_cases(path):
    """[(kind, id, code)] of the lines that C tests wrote; code is "" for none."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    cases = []
    for line in lines:
        kind, id, code = line.split("\t")
        parts = code.split("\\\\")  # a backslash stands doubled
        cases.append((kind, id, "\\".join(part.replace("\\n", "\n") for part in parts)))
    return cases


def run_cases(path):
    """Runs the C tests that have cases, which note them in the file."""
    names = [p.stem for p in sorted(UNIT.glob("test_*.c")) if "RULE_FIRES" in p.read_text()]
    env = {**os.environ, "KSCOPE_RULE_CASES": str(path), "KSCOPE_SOURCE": str(ROOT)}
    for name in names:
        program = KSCOPE.parent / "tests" / "unit" / name
        done = subprocess.run([program], capture_output=True, env=env, timeout=300, check=False)
        assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    return read_cases(path)
