"""Goal: run_faults.py notices each way in which advice can be wrong, and fills its table.

Method: stand-ins for kscope say what is right, then one thing is made wrong; two programs are
recorded for real, all of them when KSCOPE_TEST_SLOW is set.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
KSCOPE = os.environ.get("KSCOPE_BIN", str(HERE.parents[1] / "build" / "kscope"))
sys.path.insert(0, str(HERE))

from catalog import PROGRAMS  # noqa: E402
from run_faults import summary_of  # noqa: E402

TWINS = ("--bad", "--good")
RULES = ("input.starved", "host.python_gap", "memory.growth")

# `run` notes which twin was asked for; `report` answers with the document of that twin.
STAND_IN = """#!{python}
import json, os, pathlib, sys
docs = json.loads(pathlib.Path({docs!r}).read_text())
if sys.argv[1] == "run":
    folder = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
    folder.mkdir()
    (folder / "twin").write_text("good" if "--good" in sys.argv else "bad")
    pathlib.Path({docs!r}).with_name("words").write_text(" ".join(sys.argv))
    cache = pathlib.Path(os.environ["CUDA_CACHE_PATH"])
    with open(pathlib.Path({docs!r}).with_name("caches"), "a") as caches:
        print(cache, list(cache.iterdir()), file=caches)
    (cache / "kernel").touch()
else:
    print(json.dumps(docs[(pathlib.Path(sys.argv[-1]) / "twin").read_text()]))
"""


def finding(id, low=8, high=11, cause=None):
    saving = {"low": low * 1_000_000, "high": high * 1_000_000}
    return {"id": id, "saving_ns_per_step": saving, "cause": cause}


def report(*findings, rules=RULES):
    checked = [{"id": id, "state": "fine"} for id in rules]
    return {"findings": list(findings), "checked": checked}


def check(folder, program, bad, good, *words):
    docs = folder / "docs.json"
    docs.write_text(json.dumps({"bad": bad, "good": good}))
    kscope = folder / "kscope"
    kscope.write_text(STAND_IN.format(python=sys.executable, docs=str(docs)))
    kscope.chmod(0o755)
    command = [sys.executable, HERE / "run_faults.py", kscope, folder / "out", program, *words]
    done = subprocess.run(
        [*command, "--repeat", "0"], capture_output=True, text=True, timeout=60, check=False
    )
    rows = json.loads((folder / "out" / "faults.json").read_text())
    return done.returncode, rows, done.stdout + done.stderr


def test_right_advice(tmp_path):
    bad = report(finding("other"), finding("input.starved", cause="storage"))
    status, (row,), said = check(tmp_path, "input_storage", bad, report())
    assert status == 0, said
    assert (row["found"], row["place"], row["repaired"]) == ("input.starved", 2, "silent")
    assert (row["low_ms"], row["high_ms"], row["misses"]) == (8, 11, [])
    assert "yes (storage)" in said
    first, second = (tmp_path / "caches").read_text().splitlines()
    assert first != second and first.endswith(" []") and second.endswith(" []")


@pytest.mark.parametrize(
    ("bad", "good", "miss"),
    [
        (report(), report(), "not found"),
        (report(finding("host.python_gap")), report(), "not found"),
        (report(finding("input.starved", cause="decode")), report(), "cause is decode"),
        (
            report(finding("input.starved", cause="storage")),
            report(finding("input.starved")),
            "the repaired twin shows input.starved",
        ),
    ],
)
def test_wrong_advice(tmp_path, bad, good, miss):
    status, (row,), said = check(tmp_path, "input_storage", bad, good)
    assert status == 1 and len(row["misses"]) == 1 and miss in row["misses"][0]
    assert said.splitlines()[-1] == "1 of 1 faults missed"


def test_rule_that_is_not_there(tmp_path):
    status, (row,), said = check(tmp_path, "recompiles", report(), report())
    assert (status, row["misses"]) == (0, []) and "no rule yet" in said


@pytest.mark.torch
def test_more_ranks_than_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    status, (row,), said = check(tmp_path, "fsdp_gather", report(), report(), "--device", "cuda")
    assert (status, row["misses"]) == (0, []) and "left out: 2 ranks, 0 GPUs" in said


def test_several_ranks_on_the_cpu(tmp_path):
    bad = report(finding("fsdp.exposed_gather"))
    status, (row,), said = check(tmp_path, "fsdp_gather", bad, report())
    assert (status, row["found"]) == (0, "fsdp.exposed_gather"), said
    words = (tmp_path / "words").read_text()
    assert "-m torch.distributed.run --standalone --nproc-per-node 2 " in words


def test_same_time_under_another_id(tmp_path):
    bad = report(finding("host.python_gap"))
    status, (row,), said = check(tmp_path, "tokenize_inline", bad, report())
    assert (status, row["found"]) == (0, "host.python_gap") and "as host.python_gap" in said


def test_place_of_the_first_name_of_the_time(tmp_path):
    bad = report(finding("host.python_gap"), finding("input.tokenize_inline"))
    status, (row,), said = check(
        tmp_path, "tokenize_inline", bad, report(rules=(*RULES, "input.tokenize_inline"))
    )
    assert (status, row["found"], row["place"]) == (0, "input.tokenize_inline", 1), said


def test_programs_side_by_side_and_what_is_kept(tmp_path):
    bad = report(finding("memory.growth"))
    kept = tmp_path / "kept"
    words = ("input_decode", "--jobs", "3", "--keep", str(kept))
    status, rows, said = check(tmp_path, "memory_growth", bad, report(), *words)
    assert [(row["program"], bool(row["misses"])) for row in rows] == [
        ("memory_growth", False),
        ("input_decode", True),
    ], said
    assert status == 1
    folders = {f"{name}{twin}" for name in ("memory_growth", "input_decode") for twin in TWINS}
    assert {path.name for path in kept.iterdir() if path.is_dir()} == folders


def test_steps_by_an_annotation(tmp_path):
    check(tmp_path, "unbatched", report(finding("inference.unbatched")), report())
    assert " --step-mark request " in (tmp_path / "words").read_text()


def test_several_faults(tmp_path):
    bad = report(finding("input.starved", cause="storage"), finding("memory.growth"))
    status, rows, _ = check(tmp_path, "many_on_cpu", bad, report())
    assert status == 1 and [bool(row["misses"]) for row in rows] == [False, True, False]


def test_table_in_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- faults: cpu -->\nold\n<!-- end -->\nb\n<!-- faults: cuda -->\nkept\n")
    bad = report(finding("input.starved", cause="storage"))
    check(tmp_path, "input_storage", bad, report(), "--docs", page)
    text = page.read_text()
    assert "| input_storage | input.starved | yes (storage) | 1 | 8.0 to 11.0 | - |" in text
    assert text.startswith("a\n<!-- faults: cpu -->\n1 of 1 faults are found, 1 of them first, or")
    assert " within three. 0 of 0 savings hold.\n\n| program |" in text and "\nold" not in text
    assert text.endswith("<!-- end -->\nb\n<!-- faults: cuda -->\nkept\n")


def test_other_programs_stay_in_the_table(tmp_path):
    page = tmp_path / "page.md"
    names = ("input_decode", "input_storage", "memory_growth")
    lines = [f"| {name} | old | no | - | - | - | - | - |" for name in names]
    page.write_text("\n".join(["<!-- faults: cpu -->", "| program |", *lines, "<!-- end -->"]))
    bad = report(finding("input.starved", cause="decode"))
    check(tmp_path, "input_decode", bad, report(), "--docs", page)
    text = page.read_text()
    assert text.splitlines()[1].startswith("1 of 3 faults are found, 1 of them first")
    names = [line.split("|")[1:3] for line in text.splitlines()[5:-1]]
    cells = [tuple(cell.strip() for cell in pair) for pair in names]
    assert cells == [
        ("input_storage", "old"),
        ("input_decode", "input.starved"),
        ("memory_growth", "old"),
    ]


@pytest.mark.parametrize(
    ("places", "firsts"),
    [((1, 2, None), 2), ((2, 3, None), 0), ((1, 3, 2), 3), ((3, 1, None), 1), ((None,) * 3, 0)],
)
def test_faults_beside_each_other_are_all_first(places, firsts):
    row = "| many | x | yes | {} | 1.0 to 2.0 | 3.0 of 9.0 | off by 1.0 | silent |"
    other = "| one | x | yes | 2 | 1.0 to 2.0 | 1.5 of 9.0 | yes | silent |"
    said = summary_of([*(row.format(place or "-") for place in places), other])
    assert f", {firsts} of them first" in said
    assert said.endswith(" 1 of 4 savings hold.")


def test_unknown_program(tmp_path):
    command = [sys.executable, HERE / "run_faults.py", "x", tmp_path, "input_storrage"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "no such program" in done.stderr


IN_CI = ("input_storage", "python_gap_logging", "memory_growth")
RECORDED = [
    program.name
    for program in PROGRAMS
    if not program.needs_gpu and (program.name in IN_CI or os.environ.get("KSCOPE_TEST_SLOW"))
]


@pytest.mark.torch
@pytest.mark.parametrize("name", RECORDED)
def test_fault_is_found(tmp_path, name):
    """Only that: which time it takes, and what waits for a core, the machine decides."""
    command = [sys.executable, HERE / "run_faults.py", KSCOPE, tmp_path, name, "--repeat", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    rows = json.loads((tmp_path / "faults.json").read_text())
    assert rows and all(row["found"] for row in rows), done.stdout + done.stderr
