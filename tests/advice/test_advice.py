"""Advice on recordings of an H100 with one known fault each, and on the same runs repaired.

Step times of both were measured without the profiler: a saving must hold their difference, give or
take 2 % of the step. The repaired runs give no ground for the finding.
"""

import json
import lzma
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
KSCOPE = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))

# name, id, step in ms with the fault, ms that the repair saved
FAULTS = [
    ("A.channels_last.bad", "layout.transposes", 48.4, 21.2),
    ("A.churn.bad", "memory.allocator_churn", 4.7, 1.9),
    ("A.cpu_fallback.bad", "device.round_trip", 4.9, 1.6),
    ("A.dataloader.bad", "input.starved", 41.4, 33.8),
    ("A.fp32.bad", "precision.fp32_matmul", 94.8, 85.6),
    ("A.host_sync.bad", "sync.host", 12.5, 3.7),
    ("A.optimizer.bad", "optimizer.unfused", 109.9, 51.6),
    ("A.pageable.bad", "copy.pageable", 166.5, 28.8),
    ("A.python_bound.bad", "host.python_gap", 60.9, 51.5),
    ("A.small_h2d.bad", "copy.many_small", 18.1, 14.1),
    ("D.straggler.bad", "ranks.straggler", 31.2, 18.4),
]
# name, ids that may be there
REPAIRED = [
    ("A.attention.good", {"launch.bound"}),
    ("A.cpu_fallback.good", {"launch.bound", "batch.too_small"}),
    ("A.cudnn_bench.good", {"layout.transposes"}),
    ("A.dataloader.good", {"launch.bound", "host.python_gap"}),
    ("A.fp32.good", set()),
    ("A.host_sync.good", {"launch.bound", "host.python_gap", "batch.too_small"}),
    ("A.pageable.good", {"precision.fp32_matmul", "layout.transposes"}),
    ("A.python_bound.good", {"launch.bound", "layout.transposes"}),
    ("A.recompiles.good", {"launch.bound", "batch.too_small"}),
    ("A.healthy.good", set()),
]


def report(name):
    """Of all ranks of the recording together; those packed by xz are unpacked first."""
    packed = DATA / f"{name}.pt.trace.json.xz"
    if packed.exists():
        with tempfile.TemporaryDirectory() as folder:
            plain = Path(folder) / f"{name}.pt.trace.json"
            plain.write_bytes(lzma.decompress(packed.read_bytes()))
            return report_of([str(plain)])
    paths = sorted(str(path) for path in DATA.glob(f"{name}*.pt.trace.json.gz"))
    assert paths
    return report_of(paths)


def report_of(paths):
    done = subprocess.run(
        [KSCOPE, "report", "--json", *paths], capture_output=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(("name", "fault", "step_ms", "saved_ms"), FAULTS)
def test_fault_is_found_with_its_saving(name, fault, step_ms, saved_ms):
    findings = report(name)["findings"]
    found = [f for f in findings[:2] if f["id"] == fault]
    assert found, [f["id"] for f in findings]
    saving = found[0]["saving_ns_per_step"]
    tolerance_ms = 0.02 * step_ms
    assert saving["low"] / 1e6 <= saved_ms + tolerance_ms
    assert saving["high"] / 1e6 >= saved_ms - tolerance_ms


@pytest.mark.parametrize(("name", "allowed"), REPAIRED)
def test_no_ground_in_repaired_runs(name, allowed):
    assert {f["id"] for f in report(name)["findings"]} <= allowed


def test_memory_that_grows_comes_first():
    """A loss and its graph stay in each step: 66.3 MiB of 80 GB, less than 10,000 steps."""
    finding = report("A.leak.bad")["findings"][0]
    assert finding["id"] == "memory.growth"
    assert finding["saving_ns_per_step"] == {"low": 0, "high": 0}
    assert 66 << 20 < finding["bytes"] < 67 << 20
    assert 1100 < finding["steps_until_oom"] < 1300
    assert finding["where"]["operator"] == "aten::relu"


def test_graph_of_inference():
    """1292 MiB at the peak, 329 under no_grad(): 963 belong to the graph."""
    findings = {f["id"]: f for f in report("A.no_grad.bad")["findings"]}
    graph = findings["inference.grad_enabled"]
    assert abs(graph["bytes"] / 2**20 - 963) < 10
    assert graph["impact"] == "memory"


def test_late_rank_is_named():
    finding = report("D.straggler.bad")["findings"][0]
    assert finding["id"] == "ranks.straggler"
    assert finding["cause"] == "host_code"
    assert finding["where"]["rank"] == 1
    assert finding["ranks"] == [1]


def test_place_of_reading_values():
    """The recording has Python stacks: the finding names the function that holds the calls."""
    finding = next(f for f in report("A.host_sync.bad")["findings"] if f["id"] == "sync.host")
    assert finding["where"]["file"].endswith("gen_corpus.py")
    assert finding["where"]["line"] == 109
    assert finding["where"]["operator"] == "aten::item"


def test_round_trip_says_what_happened():
    """[2048, 100] in fp32 goes to the CPU, is sorted there, and a column of it comes back."""
    findings = {f["id"]: f for f in report("A.cpu_fallback.bad")["findings"]}
    trip = findings["device.round_trip"]
    evidence = {e["name"]: e["value"] for e in trip["evidence"]}
    assert evidence["trips_per_step"] == 1
    assert evidence["to_host"] == 2048 * 100 * 4
    assert evidence["to_device"] == 2048 * 4
    assert 1.4e6 < evidence["on_host"] < evidence["idle_meanwhile"] < 2.1e6
    assert trip["where"]["operator"] == "aten::to"
    assert "aten::sort" in trip["fix"]["text"]
    # What the trip explains is no slow launching.
    launching = {e["name"]: e["value"] for e in findings["launch.bound"]["evidence"]}
    assert launching["idle_launching"] < 3.7e6


@pytest.mark.parametrize(("name", "fault", "step_ms", "saved_ms"), FAULTS)
def test_findings_fit_into_the_step(name, fault, step_ms, saved_ms):
    document = report(name)
    complete = [s["dur_ns"] for s in document["steps"] if s["complete"]]
    highs = sum(f["saving_ns_per_step"]["high"] for f in document["findings"] if f["primary"])
    assert highs <= sum(complete) / len(complete) + 1


def test_causes_come_before_what_they_cause():
    """An unfused optimizer is why the program launches so much, and small kernels why a larger
    batch would be free: launch.bound starts from the repair of the one, and leads the other."""
    findings = report("A.optimizer.bad")["findings"]
    assert [f["id"] for f in findings] == ["optimizer.unfused", "launch.bound", "batch.too_small"]
    assert [f["primary"] for f in findings] == [True, True, False]
    evidence = {e["name"]: e["value"] for e in findings[0]["evidence"]}
    assert evidence["tensors"] == 322
    assert evidence["launches_per_step"] == 8 * 322
    assert findings[0]["where"]["operator"] == "Optimizer.step#AdamW.step"
    assert "fused=True" in findings[0]["fix"]["code"]


def test_conversions_order_the_layout():
    """Batch normalisation that is faster in NHWC counts for the saving, not for the order."""
    findings = {f["id"]: f for f in report("A.pageable.bad")["findings"]}
    evidence = {e["name"]: e["value"] for e in findings["layout.transposes"]["evidence"]}
    assert evidence["slower_in_nchw"] > 5 * evidence["converting"] > 0
    assert list(findings)[0] == "copy.pageable"
