"""Goal: train_seo.py is the same with and without everything that looks at it, and what kscope says
of its fault is true.

Method: the program as a user starts it. What is printed is compared to the last digit; the saving
of the finding with the region around what the fix takes out of the step, in the same steps of one
run, so that the load of the machine is in both.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "train_seo.py"
KSCOPE = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
FAULT = "input.starved"
SHORT = ("--pages", "320", "--epochs", "2")
TIMEOUT_S = 400
WINDOW = "12:2:8"
REGION_NS = """
select f.start_ns, f.dur_ns, sum(s.dur_ns) as inside_ns from fact_steps f join slice s
on s.ts_ns >= f.start_ns and s.ts_ns < f.start_ns + f.dur_ns
where f.complete and s.name = 'next_batch' group by f.start_ns, f.dur_ns
"""

pytestmark = pytest.mark.torch


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KSCOPE_", "PYTHONPATH"))}
    return {**kept, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **more}


def run(*words, **more):
    return subprocess.run(
        [*map(str, words)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment(**more),
    )


def train(*options, **more):
    return run(sys.executable, PROGRAM, *SHORT, *options, **more)


def printed(done):
    """What does not depend on the clock: losses, scores, parts that are right."""
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"median_step_ms [0-9.]+ median_step_cpu_ms [0-9.]+", lines[-1])
    return lines[:-1]


@pytest.fixture(scope="module")
def alone():
    return printed(train())


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A run with the fault under `kscope run`, with regions: (its end, the folder)."""
    out = tmp_path_factory.mktemp("watched") / "out"
    return record(out, "--fault", FAULT), out


def test_fault_and_recorder_change_no_result(alone, watched):
    done, _ = watched
    assert printed(train("--fault", FAULT)) == alone
    assert printed(done) == alone
    assert len(alone) == 4 and alone[0].startswith("epoch  1  loss ")


def record(out, *options):
    words = [KSCOPE, "run", "--steps", WINDOW, "--record", "regions", "--out", out, PROGRAM]
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    return run(*words, *SHORT, *options, PATH=path)


def waits_ns(out):
    """(length, time in the region around the loader) of each step of the window."""
    done = run(KSCOPE, "query", "--json", out, REGION_NS)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 8
    return [(row[1], row[2]) for row in rows]


def test_first_finding_is_the_fault_and_saves_what_it_says(watched, tmp_path, alone):
    """Tokens that were made before leave a wait for padding, and nothing else of the step is
    another one."""
    finding = json.loads((watched[1] / "report.json").read_text())["findings"][0]
    assert finding["id"] == FAULT and finding["cause"] == "decode"
    fixed = tmp_path / "fixed"
    assert printed(record(fixed)) == alone
    with_fault, without = waits_ns(watched[1]), waits_ns(fixed)
    gain = statistics.fmean(wait for _, wait in with_fault)
    gain -= statistics.median(wait for _, wait in without)
    saving = finding["saving_ns_per_step"]
    step = statistics.fmean(length for length, _ in with_fault)
    # The two are of different runs, and what else the machine does differs by that much of a step.
    noise = 0.15 * step
    assert saving["low"] - noise <= gain <= saving["high"] + noise, (saving, gain)
    assert gain > 0.05 * step
    found = json.loads((fixed / "report.json").read_text())["findings"]
    assert not [f for f in found if f["id"] in (FAULT, "input.padding")]


def test_workers_change_no_result(alone):
    assert printed(train("--fault", FAULT, "--workers", 2)) == alone


def test_resumes(tmp_path, alone):
    kept = tmp_path / "kept"
    assert printed(train("--checkpoints", kept)) == alone
    resumed = printed(train("--resume", kept / "epoch001.pt"))
    assert resumed == alone[1:]


def test_profiled_training_is_the_same(tmp_path, alone):
    """kinetoscope.CodeProfiler with every switch that records, in the program itself."""
    python = ROOT / "python"
    profiles = tmp_path / "profiles"
    done = train("--profile", profiles, PYTHONPATH=str(python))
    assert printed(done) == alone
    (trace,) = profiles.rglob("*.pt.trace.json")
    events = json.loads(trace.read_text())["traceEvents"]
    steps = [e for e in events if str(e.get("name")).startswith("ProfilerStep#")]
    assert len({e["name"] for e in steps}) == 6


def test_wrong_usage():
    done = train("--fault", "input.starving")
    assert done.returncode == 2 and FAULT in done.stderr.splitlines()[-1]
