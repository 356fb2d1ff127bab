"""Goal: what PyTorchProfiler says is what torch.profiler recorded. Method: torch's own key_averages
of the same recording, handed over by the trace handler; the text of the exported trace."""

import gzip
import json
import re

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


NEGS = 40  # of a call of work(): its own, and one in the backward of each


def work():
    layer = torch.nn.Linear(16, 300)
    for _ in range(20):
        y = layer(torch.ones(8, 16))
        (y @ y.T).neg().sum().backward()


def spans_of(path):
    """[(name, thread, start, end)] in us of a trace."""
    with gzip.open(path) if str(path).endswith(".gz") else open(path) as file:
        events = json.load(file)["traceEvents"]
    return [
        (str(e["name"]), e["tid"], e["ts"], e["ts"] + e["dur"])
        for e in events
        if e.get("ph") == "X" and e.get("cat") != "Trace"
    ]


@pytest.fixture
def recorded(make):
    """(PyTorchProfiler, key_averages by name) of one step."""
    averages = {}

    def handler(profile):
        averages.update((row.key, row) for row in profile.key_averages())

    profiler = make(torch_profiler_trace_handler=handler, with_stack=False).pytorch_profiler
    profiler.profile_step(work)
    return profiler, averages


def test_summary_is_that_of_torch(recorded):
    profiler, averages = recorded
    summary = profiler.get_profile_summary(row_limit=1000)
    rows = {row["name"]: row for row in summary["top_operations"]}
    assert {"aten::addmm", "aten::neg", "AddmmBackward0"} <= set(rows)
    for name, row in rows.items():
        theirs = averages[name]
        assert row["calls"] == theirs.count, name
        # torch rounds each call to 1 ns, as us in a double.
        assert row["cpu_time"] * 1e6 == pytest.approx(
            theirs.cpu_time_total, abs=0.01 * row["calls"]
        )
        own = row["self_cpu_time"] * 1e6
        assert own == pytest.approx(theirs.self_cpu_time_total, abs=0.01 * row["calls"]), name
    times = [row["cpu_time"] for row in summary["top_operations"]]
    assert times == sorted(times, reverse=True)
    assert summary["cpu_time"] == pytest.approx(sum(r["self_cpu_time"] for r in rows.values()))
    assert summary["cuda_time"] == 0 and summary["total_time"] >= summary["cpu_time"] * 0.5
    assert len(profiler.get_profile_summary(row_limit=3)["top_operations"]) == 3


def test_tables(recorded):
    profiler, averages = recorded
    # By calls, for whose time is the longest depends on what else the machine does.
    _, first, *_ = profiler.table(sort_by="count", row_limit=1).splitlines()
    name, calls = first.split()[:2]
    assert averages[name].count == int(calls) == max(row.count for row in averages.values())
    assert re.search(r"\[8, 16\]", profiler.table(group_by_input_shape=True, row_limit=500))
    with pytest.raises(ValueError, match="self_cpu_ns"):
        profiler.table(sort_by="nothing")


def test_exports(make, tmp_path):
    profiler = make(with_stack=True).pytorch_profiler
    profiler.profile_step(work)
    for name in ("a.json", "a.json.gz"):
        profiler.export_chrome_trace(tmp_path / name)
    events = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    assert sum(event.get("name") == "aten::neg" for event in events) == NEGS
    assert (tmp_path / "a.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    profiler.export_stacks(tmp_path / "s.txt")
    lines = [line.rpartition(" ") for line in (tmp_path / "s.txt").read_text().splitlines()]
    total = sum(int(ns) for _, _, ns in lines)
    of_steps = sum(int(ns) for stack, _, ns in lines if stack.endswith("ProfilerStep*"))
    assert any("work" in stack and "aten::neg" in stack for stack, _, _ in lines)
    spans = spans_of((profiler._stack_paths or profiler._paths)[0])
    step_us = sum(end - start for name, _, start, end in spans if name.startswith("ProfilerStep#"))
    recorded_us = max(end for *_, end in spans) - min(start for _, _, start, _ in spans)
    threads = len({thread for _, thread, _, _ in spans})
    # Folded stacks add up to the time: of the steps at least, of all threads at most. A step begins
    # and ends inside of calls of the profiler: what of these lies in it is its own time as well.
    assert 0.99 * step_us <= total / 1000
    assert (total - of_steps) / 1000 <= 1.001 * threads * recorded_us
    with pytest.raises(ValueError, match="self_cuda_time_total"):
        profiler.export_stacks(tmp_path / "s.txt", "nothing")
    assert "test_torch_profiler.py" in profiler.table(group_by_stack_n=5, row_limit=500)


def test_profiling_a_model(make):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    profiler = make(with_stack=False).pytorch_profiler
    rows = profiler.profile_model(model, torch.ones(2, 4), num_steps=5)["top_operations"]
    assert {"aten::linear": 5, "aten::relu": 5}.items() <= {
        r["name"]: r["calls"] for r in rows
    }.items()
    with pytest.raises(TypeError, match="torch.nn.Module"):
        profiler.profile_model(work, None)


def test_errors_leave_nothing_running(make, tmp_path):
    profiler = make().pytorch_profiler
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        profiler.get_profile_summary()
    with pytest.raises(RuntimeError, match="record"):
        profiler.step()
    with profiler.record(), pytest.raises(RuntimeError, match="already"), profiler.record():
        pass
    with pytest.raises(KeyError, match="planted"):
        profiler.profile_step(lambda: {}["planted"])
    with torch.profiler.profile(), pytest.raises(RuntimeError, match="one for a process"):
        profiler.profile_step(work)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError), profiler.record(tmp_path / "file" / "below"):
        pass
    profiler.profile_step(work)  # all of that is over
    assert profiler.get_profile_summary()["top_operations"]


def test_profile_and_handler(ks, tmp_path):
    with ks.profile(tmp_path / "a") as recording:
        for _ in range(4):
            with ks.profile_operation("load", "data_loading"):
                work()
            recording.step()
        with pytest.raises(RuntimeError), ks.profile(tmp_path / "b"):
            pass
    assert not ks.is_recording()
    report = ks.open(tmp_path / "a")
    assert len(report.steps) == 4
    rows = {row["name"]: row for row in report.operators}
    assert rows["aten::neg"]["calls"] == 4 * NEGS
    assert (rows["load"]["calls"], rows["load"]["category"]) == (4, "data_loading")
    assert rows["load"]["cpu_ns"] <= sum(step["dur_ns"] for step in report.steps)

    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    handler = ks.handler(tmp_path / "c")
    with torch.profiler.profile(schedule=schedule, on_trace_ready=handler) as theirs:
        for _ in range(5):
            work()
            theirs.step()
    report = ks.open(tmp_path / "c")
    assert [step["number"] for step in report.steps] == [2, 3]

    with pytest.raises(ZeroDivisionError), ks.profile(tmp_path / "d") as recording:
        work()
        recording.step()
        _ = 1 / 0
    assert len(ks.open(tmp_path / "d").steps) == 1 and not ks.is_recording()
    with pytest.raises(OSError):
        ks.handler("/proc/nowhere")


@pytest.fixture
def full_disk(monkeypatch):
    """Traces cannot be written, and leave a part behind."""

    def export(profiler, path):
        with open(path, "w") as file:
            file.write("{")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", export)


def test_a_full_disk_does_not_end_the_loop(ks, make, tmp_path, full_disk, caplog):
    steps = []

    def loop(recording):
        for step in range(6):
            work()
            recording.step()
            steps.append(step)

    with pytest.raises(OSError, match="No space"), ks.profile(tmp_path, schedule="1:1:1:1") as p:
        loop(p)
    assert steps == list(range(6)) and not torch.autograd._profiler_enabled()
    profiler = make(profiler_schedule="1:1:1:1").pytorch_profiler
    with pytest.raises(OSError, match="No space"), profiler.record(tmp_path):
        loop(profiler)
    assert len(steps) == 12 and not profiler.has_recording
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=1)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=ks.handler(tmp_path)) as theirs:
        loop(theirs)
    assert len(steps) == 18 and "A trace is missing" in caplog.text
    assert not list(tmp_path.glob("*.json*")) and not ks.is_recording()


def test_the_exception_of_the_block_is_the_one_that_passes(ks, make, tmp_path, full_disk):
    with pytest.raises(KeyError), ks.profile(tmp_path):
        raise KeyError("planted")
    with pytest.raises(KeyError), make().pytorch_profiler.record(tmp_path):
        raise KeyError("planted")
