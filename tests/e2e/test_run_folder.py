"""Goal: `kscope report DIR` understands the folder of a run, also one that is not over.

Method: folders made by hand (run_folder.py) with one difference each.
"""

import json
import os
import subprocess

import jsonschema
import pytest
from run_folder import BASE_NS, KSCOPE, ROOT, TIMEOUT_S, environment, write_status, write_trace


def report(*words):
    return subprocess.run(
        [KSCOPE, "report", *map(str, words)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=TIMEOUT_S,
    )


def document(*words):
    done = report("--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---------------------------------------------------------------- a run that is not over


@pytest.mark.parametrize(
    ("state", "words"),
    [("waiting", "its window is still to come"), ("recording", "its window is open")],
)
def test_a_running_folder_without_a_trace(tmp_path, living, state, words):
    write_status(tmp_path, pid=living, state=state, explanation="It made 3 steps.")
    (tmp_path / "rank0.pid1.window1.pt.trace.json.gz.tmp").write_bytes(b"half of it")
    done = report(tmp_path)
    assert done.returncode == 3
    assert f"the program is still running, and {words}. It made 3 steps." in done.stderr


def test_a_folder_without_a_trace_is_explained(tmp_path, dead):
    write_status(tmp_path, pid=1 << 30, steps_seen=1, explanation="The helper made one step.")
    write_status(tmp_path, pid=dead, rank=1, steps_seen=9, explanation="It was too short.")
    done = report(tmp_path)
    assert done.returncode == 3
    assert "It was too short." in done.stderr
    assert "running" not in done.stderr


def test_a_running_folder_with_a_trace(tmp_path, living):
    write_trace(tmp_path, pid=living)
    write_status(tmp_path, pid=living)
    assert "the program is still running" in report(tmp_path).stdout
    found = document(tmp_path)
    assert found["inputs"][0]["is_running"] is True
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    jsonschema.validate(found, schema)


@pytest.fixture
def zombie():
    """It has ended, and nobody has asked how."""
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.wait()


@pytest.mark.parametrize("why", ["over", "dead", "zombie", "reused"])
def test_a_folder_whose_program_has_ended(tmp_path, living, dead, zombie, why):
    """A number that another process has by now is told by the time at which that one began."""
    pid = {"dead": dead, "zombie": zombie}.get(why, living)
    write_trace(tmp_path, pid=pid)
    write_status(tmp_path, pid=pid, is_over=why == "over")
    if why == "reused":
        (status,) = tmp_path.glob("*.status")
        os.utime(status, ns=(BASE_NS, BASE_NS))
    assert "still running" not in report(tmp_path).stdout
    assert "is_running" not in document(tmp_path)["inputs"][0]


# ---------------------------------------------------------------- which files are read


def test_stacks_are_no_second_window(tmp_path):
    write_trace(tmp_path)
    alone = document(tmp_path)
    stacks = write_trace(tmp_path, stacks=True, step_us=90_000)
    assert document(tmp_path) == alone
    both = [str(path) for path in sorted(tmp_path.iterdir())]
    assert [row["path"] for row in document(*both)["inputs"]] == [
        path for path in both if ".stacks." not in path
    ]
    assert len(document(tmp_path / stacks)["steps"]) == 6  # alone it is a trace as any other


def test_stacks_without_their_window_are_a_trace(tmp_path):
    write_trace(tmp_path, stacks=True)
    assert len(document(tmp_path)["steps"]) == 6


def test_the_latest_window_is_read(tmp_path):
    for window in (1, 2, 10):
        write_trace(tmp_path, window=window, step_us=window * 1000)
    assert [step["dur_ns"] for step in document(tmp_path)["steps"]] == [10_000_000] * 6
    assert [s["dur_ns"] for s in document("--window", 2, tmp_path)["steps"]] == [2_000_000] * 6
    given = sorted(map(str, tmp_path.iterdir()))
    assert len(document(*given)["steps"]) == 18  # what is named is read
    done = report("--window", 3, tmp_path)
    assert done.returncode == 2
    assert "no trace of window 3" in done.stderr


def test_info_looks_at_all_files(tmp_path):
    names = [write_trace(tmp_path, window=window) for window in (1, 2)]
    names.append(write_trace(tmp_path, window=2, stacks=True))
    done = subprocess.run([KSCOPE, "info", tmp_path], capture_output=True, text=True, timeout=9)
    assert all(name in done.stdout for name in names)


def test_each_rank_has_its_latest_window(tmp_path):
    for rank, windows in ((0, (1, 2)), (1, (1,))):
        for window in windows:
            write_trace(tmp_path, rank=rank, pid=rank + 5, window=window, world=2)
    names = [row["path"].rpartition("/")[2] for row in document(tmp_path)["inputs"]]
    assert [name.split(".pt")[0] for name in names] == ["rank0.pid5.window2", "rank1.pid6.window1"]


def test_own_reports_are_no_traces(tmp_path):
    write_trace(tmp_path)
    alone = document(tmp_path)
    for name in ("report.json", "report.window1.json"):
        (tmp_path / name).write_text(report("--json", tmp_path).stdout)
    assert document("--strict", tmp_path) == alone


def test_a_trace_may_be_called_report(tmp_path):
    (tmp_path / "report.json").write_text('[{"ph": "X", "name": "k", "ts": 1, "dur": 1}]')
    assert document(tmp_path)["inputs"][0]["events"] == 1


# ---------------------------------------------------------------- what the status adds


@pytest.mark.parametrize(
    ("before_count", "after", "expected"),
    [
        (3, [], 500_000),
        (3, [900_000] * 4, 900_000),  # 4 after, 3 before: the middle of all
        (3, [900_000, 100_000], 500_000),
        (5, [900_000] * 20, 500_000),  # enough before: what comes after may still be slowed down
    ],
)
def test_step_times_around_the_window(tmp_path, before_count, after, expected):
    before = [500_000] * before_count
    write_trace(tmp_path, pid=77, before_ns=before)
    write_status(tmp_path, pid=77, unprofiled_step_ns=before, unprofiled_step_after_ns=after)
    assert document(tmp_path)["steps"][0]["unprofiled_ns"] == expected


def test_step_times_of_another_process_are_not_taken(tmp_path):
    write_trace(tmp_path, pid=77, before_ns=[500_000])
    write_status(tmp_path, pid=78, unprofiled_step_after_ns=[900_000] * 20)
    write_status(tmp_path, rank=1, pid=77, unprofiled_step_after_ns=[900_000] * 20)
    (status,) = tmp_path.glob("*rank1.pid77.status")
    status.rename(tmp_path / "kscope-run.rank0.pid77.status")
    assert document(tmp_path)["steps"][0]["unprofiled_ns"] == 500_000


@pytest.mark.parametrize("kind", ["huge", "cut", "binary", "link", "folder", "pipe", "deep"])
def test_hostile_status_files(tmp_path, kind):
    out = tmp_path / "out"
    out.mkdir()
    write_trace(out, pid=77, before_ns=[500_000])
    write_status(tmp_path, pid=77, unprofiled_step_after_ns=[900_000] * 20)
    (good,) = tmp_path.glob("*.status")
    path = out / good.name
    text = good.read_bytes()
    if kind == "link":
        path.symlink_to(good)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(
            {
                "huge": text + b" " * (2 << 20),
                "cut": text[: len(text) // 2],
                "binary": bytes(range(256)) * 64,
                "deep": b'{"schema": "kinetoscope.run/1", "x": ' + b"[" * 100_000,
            }[kind]
        )
    assert document(out)["steps"][0]["unprofiled_ns"] == 500_000
    os.unlink(next(out.glob("*.gz")))
    assert report(out).returncode == 3


# ---------------------------------------------------------------- what the monitor adds


def monitor_line(**members):
    known = {"cgroup_cpu_quota_us": 200_000, "cgroup_cpu_period_us": 100_000}
    return json.dumps({**known, **members}) + "\n"


def test_throttling_is_said(tmp_path):
    write_trace(tmp_path)
    (tmp_path / "monitor.jsonl").write_text(
        monitor_line(cgroup_periods=10, cgroup_throttled=5, cgroup_throttled_ns=0)
        + monitor_line(cgroup_periods=20, cgroup_throttled=6, cgroup_throttled_ns=250_000_000)
    )
    words = "CPU limit 2.00 cores, held back in 10 % of periods, 0.25 s in all"
    assert document(tmp_path)["environment"]["cgroup"] == words
    assert words in report(tmp_path).stdout


def test_limits_that_hold_nobody_back_are_not_on_the_screen(tmp_path):
    write_trace(tmp_path)
    line = monitor_line(cgroup_periods=10, cgroup_throttled=5, cgroup_throttled_ns=3)
    (tmp_path / "monitor.jsonl").write_text(line * 2)
    assert document(tmp_path)["environment"]["cgroup"] == "CPU limit 2.00 cores"
    assert "control group" not in report(tmp_path).stdout


def test_monitor_file_of_somebody_else(tmp_path):
    write_trace(tmp_path)
    expected = document(tmp_path)
    (tmp_path / "monitor.jsonl").write_bytes(b"\0\n\xff\n" * 40_000)
    assert document(tmp_path) == expected


def gpu(pids, **members):
    known = {"index": 0, "busy_percent": 99, "sm_mhz": 990, "sm_mhz_max": 1980, "reasons": 32}
    return {**known, "temperature_c": 92, "pids": pids, **members}


def findings(*words):
    return {finding["id"]: finding for finding in document(*words)["findings"]}


def test_clocks_of_each_rank_are_its_own(tmp_path):
    """Looks of a GPU count for the ranks on it; a file that has grown is read again."""
    for rank in range(2):
        write_trace(tmp_path, rank=rank, pid=11 + rank, world=2, gpu_us=800)
    monitor = tmp_path / "monitor.jsonl"
    line = monitor_line(gpus=[gpu([11], sm_mhz=1980, reasons=0), gpu([12], index=1)])
    monitor.write_text(line * 4)
    assert "gpu.throttled" not in findings(tmp_path)
    with monitor.open("a") as file:
        file.write("x" * 100_000 + "\n" + line + line[:-2])
    finding = findings(tmp_path)["gpu.throttled"]
    assert finding["cause"] == "heat" and finding["where"]["rank"] == 1
    assert finding["saving_ns_per_step"] == {"low": 0, "high": 400_000}
    evidence = {item["name"]: item["value"] for item in finding["evidence"]}
    assert evidence["looks"] == 5 and evidence["temperature_max"] == 92
    assert (evidence["held_back"], evidence["clock"]) == (1, 0.5)


def test_clocks_in_a_container_are_everybodys(tmp_path):
    write_trace(tmp_path, gpu_us=800)
    (tmp_path / "monitor.jsonl").write_text(monitor_line(gpus=[gpu([])]) * 5)
    assert "gpu.throttled" in findings(tmp_path)
