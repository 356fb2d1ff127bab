"""Goal: the checks that run on a machine with a GPU can fail.

Method: a stand-in for kscope prints a report that is right; then one thing in it is made wrong.
"""

import copy
import gzip
import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


def run(script, *arguments):
    command = [sys.executable, HERE / script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


# ---------------------------------------------------------------- compare_averages.py


def torch_row(key, side="CPU", **values):
    times = {"count": 2, "self_cpu": 3.5, "cpu": 4.25, "self_dev": 0.0, "dev": 0.0}
    rest = {"self_cpu_mem": 0, "self_dev_mem": 64, "flops": 10, "shapes": "[[2, 3]]"}
    return {"key": key, "dev_type": f"DeviceType.{side}", "is_user": False} | times | rest | values


def our_row(name, **values):
    times = {"calls": 2, "self_cpu_ns": 3500, "cpu_ns": 4250, "self_device_ns": 0, "device_ns": 0}
    rest = {"self_cpu_bytes": 0, "self_device_bytes": 64, "flops": 10, "input_shapes": "[[2, 3]]"}
    return {"name": name} | times | rest | values


AVERAGES = [
    torch_row("aten::add"),
    torch_row("ProfilerStep*", is_user=True),
    torch_row("Buffer Flush", self_cpu=7.0, cpu=7.0),
    torch_row("add_kernel", "CUDA", self_dev=9.0),
    torch_row("an annotation", "CUDA", is_user=True),
]
REPORT = {
    "operators": [
        our_row("aten::add"),
        our_row("ProfilerStep#2", calls=1, self_cpu_ns=1500, cpu_ns=4000, flops=10),
        our_row("ProfilerStep#3", calls=1, self_cpu_ns=2000, cpu_ns=250, flops=None)
        | {"self_device_bytes": 0},
    ],
    "kernels": [
        {"name": "add_kernel", "device": 0, "calls": 1, "total_ns": 4000},
        {"name": "add_kernel", "device": 1, "calls": 1, "total_ns": 5000},
    ],
}


def compare(folder, doc, averages=AVERAGES, events=()):
    with gzip.open(folder / "case.averages.json.gz", "wt") as file:
        json.dump({"by_name": averages, "by_shape": averages}, file)
    with gzip.open(folder / "case.pt.trace.json.gz", "wt") as file:
        json.dump({"traceEvents": list(events)}, file)
    (folder / "report.json").write_text(json.dumps(doc))
    kscope = folder / "kscope"
    kscope.write_text(f"#!/bin/sh\ncat {folder}/report.json\n")
    kscope.chmod(0o755)
    return run("compare_averages.py", kscope, folder)


def test_equal_rows(tmp_path):
    status, text = compare(tmp_path, REPORT)
    assert (status, text.splitlines()[-1]) == (0, "rows_equal 5/5 explained 0")


@pytest.mark.parametrize(
    "part, index, column, value",
    [
        ("operators", 0, "calls", 3),
        ("operators", 0, "cpu_ns", 4252),
        ("operators", 0, "self_cpu_ns", 3498),
        ("operators", 0, "self_cpu_ns", 3500 + 7002),
        ("operators", 0, "self_device_bytes", 65),
        ("operators", 0, "flops", None),
        ("operators", 0, "name", "aten::sub"),
        ("kernels", 1, "total_ns", 5002),
        ("kernels", 1, "name", "sub_kernel"),
    ],
)
def test_wrong_rows(tmp_path, part, index, column, value):
    doc = copy.deepcopy(REPORT)
    doc[part][index][column] = value
    assert compare(tmp_path, doc)[0] == 1


def test_self_time_that_torch_gave_to_the_profiler(tmp_path):
    doc = copy.deepcopy(REPORT)
    doc["operators"][0]["self_cpu_ns"] += 6999
    status, text = compare(tmp_path, doc)
    assert (status, text.splitlines()[-1]) == (0, "rows_equal 3/5 explained 2")


def test_python_functions_are_no_operators(tmp_path):
    averages = [*AVERAGES, torch_row("train.py(3): step")]
    events = [{"cat": "python_function", "name": "train.py(3): step"}]
    doc = copy.deepcopy(REPORT)
    doc["operators"][0]["self_cpu_ns"] += 1_000_000
    assert compare(tmp_path, doc, averages, events)[0] == 0
    assert compare(tmp_path, doc, averages)[0] == 1
    doc["operators"][0]["calls"] += 1
    assert compare(tmp_path, doc, averages, events)[0] == 1


def test_report_that_fails(tmp_path):
    compare(tmp_path, REPORT)
    (tmp_path / "kscope").write_text("#!/bin/sh\necho cannot read >&2\nexit 3\n")
    status, text = run("compare_averages.py", tmp_path / "kscope", tmp_path)
    assert status == 1 and "exit 3: cannot read" in text


def test_nothing_to_compare(tmp_path):
    assert run("compare_averages.py", "kscope", tmp_path)[0] == 1


# ---------------------------------------------------------------- check_run.py

RUN_REPORT = {
    "inputs": [{"status": "ok"}],
    "steps": [{"dur_ns": 100, "breakdown_ns": {"kernel": 60, "other": 40}}] * 4,
    "devices": [
        {"device": 0, "name": "G", "util": 0.5, "span_ns": 10, "busy_ns": 5, "idle_ns": 5},
    ],
    "findings": [
        {"id": "input.starved", "saving_ns_per_step": {"low": 60_000_000, "high": 80_000_000}}
    ],
}


def check_run(folder, doc, fixed_ms=30.0, device="H"):
    (folder / "report.json").write_text(json.dumps(doc))
    for name, ms in (("slow", 100.0), ("fixed", fixed_ms)):
        (folder / name).write_text(f"device {device}\nmedian_step_ms {ms}\n")
    return run("check_run.py", folder / "report.json", folder / "slow", folder / "fixed")


@pytest.mark.parametrize("fixed_ms", [30.0, 40.0, 49.9, 10.1])  # at most 10 ms outside the saving
def test_good_run(tmp_path, fixed_ms):
    assert check_run(tmp_path, RUN_REPORT, fixed_ms)[0] == 0


@pytest.mark.parametrize("fixed_ms", [50.1, 9.9])
def test_saving_that_is_not_what_was_measured(tmp_path, fixed_ms):
    status, text = check_run(tmp_path, RUN_REPORT, fixed_ms)
    assert status == 1 and text.count("FAILED") == 1


@pytest.mark.parametrize(
    "part, value",
    [
        ("inputs", [{"status": "repaired"}]),
        ("steps", RUN_REPORT["steps"][:3]),
        ("steps", [{"dur_ns": 101, "breakdown_ns": {"kernel": 60, "other": 40}}] * 4),
        ("devices", []),
        ("devices", [RUN_REPORT["devices"][0] | {"util": 0}]),
        ("devices", [RUN_REPORT["devices"][0] | {"util": 1.01}]),
        ("devices", [RUN_REPORT["devices"][0] | {"util": None}]),
        ("devices", [RUN_REPORT["devices"][0] | {"idle_ns": 6}]),
        ("findings", []),
        ("findings", [{"id": "sync.host"}, *RUN_REPORT["findings"]]),
        (
            "findings",
            [{"id": "input.starved", "saving_ns_per_step": {"low": 50e6, "high": 80e6}}],
        ),
    ],
)
def test_wrong_run(tmp_path, part, value):
    status, text = check_run(tmp_path, RUN_REPORT | {part: value})
    assert status == 1 and text.count("FAILED") == 1


def test_without_gpu_the_saving_is_left_out(tmp_path):
    status, text = check_run(tmp_path, RUN_REPORT | {"devices": [], "findings": []}, device="cpu")
    assert status == 0 and "skipped" in text


# ---------------------------------------------------------------- planted_waits.py

CAUSES = {"data": 0, "sync": 0, "host_code": 1_000_000, "launch": 500_000, "profiler": 0}


def idle_step(copied_ns=0, **grown):
    causes = {cause: ns + grown.get(cause, 0) for cause, ns in CAUSES.items()}
    parts = {"memcpy": copied_ns}
    return {"idle_ns": sum(causes.values()), "idle_by_cause_ns": causes, "breakdown_ns": parts}


def check_planted(folder, planted, plants, control=None, odd=None):
    """`odd`: the first planted step, when it is another than the rest."""
    for name, step in (("control", control or idle_step()), ("planted", planted)):
        first = odd if odd and name == "planted" else step
        doc = json.dumps({"steps": [first, *[step] * 3]})
        (folder / f"case.{name}.pt.trace.json.gz").write_text(doc)
    none = {key: 0 for key in plants}
    text = json.dumps({"control": [none] * 4, "planted": [plants] * 4})
    (folder / "case.plants.json").write_text(text)
    kscope = folder / "kscope"
    kscope.write_text('#!/bin/sh\ncat "$3"\n')
    kscope.chmod(0o755)
    return run("planted_waits.py", "--check", kscope, folder)


@pytest.mark.parametrize("found_ns", [10_000_000, 9_510_000, 10_490_000])
def test_planted_wait(tmp_path, found_ns):
    plants = {"data": 10_000_000, "host_code": 0}
    status, text = check_planted(tmp_path, idle_step(data=found_ns), plants)
    assert (status, text.splitlines()[-1]) == (0, "plants 8, wrong 0")


@pytest.mark.parametrize(
    "grown",
    [
        {"data": 9_490_000},
        {"data": 10_510_000},
        {"data": 10_000_000, "host_code": 510_000},
        {"sync": 10_000_000},
        {},
    ],
)
def test_wait_that_is_not_found(tmp_path, grown):
    plants = {"data": 10_000_000, "host_code": 0}
    status, text = check_planted(tmp_path, idle_step(**grown), plants)
    assert status == 1 and "WRONG" in text


@pytest.mark.parametrize("found_ns, status", [(1_099_000, 0), (1_101_000, 1), (899_000, 1)])
def test_short_wait_has_100_us(tmp_path, found_ns, status):
    assert check_planted(tmp_path, idle_step(data=found_ns), {"data": 1_000_000})[0] == status


def test_causes_that_do_not_add_up(tmp_path):
    step = idle_step(data=10_000_000) | {"idle_ns": 1}
    assert check_planted(tmp_path, step, {"data": 10_000_000})[0] == 1


@pytest.mark.parametrize("copied_ns, status", [(7_000_000, 0), (6_000_000, 1)])
def test_copies_are_taken_off(tmp_path, copied_ns, status):
    step = idle_step(copied_ns, sync=2_000_000, launch=1_000_000)
    assert check_planted(tmp_path, step, {"in_copies_ns": 10_000_000})[0] == status


def test_control_is_taken_off(tmp_path):
    busy = idle_step(data=4_000_000)
    assert check_planted(tmp_path, idle_step(data=14_000_000), {"data": 10_000_000}, busy)[0] == 0


def test_one_step_that_something_else_held_up(tmp_path):
    odd, plants = idle_step(data=19_000_000), {"data": 10_000_000}
    assert check_planted(tmp_path, idle_step(data=10_000_000), plants, odd=odd)[0] == 0


def test_no_plants(tmp_path):
    assert run("planted_waits.py", "--check", "kscope", tmp_path)[0] == 1
