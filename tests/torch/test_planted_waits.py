"""Goal: waits of known length in a real training loop on the CPU are found again as idle time of
the right cause. Method: the loop sleeps in its dataset and between operators, and measures both
for each step; the report of its profile must say the same within 5 % or 100 us, beyond what the
report says of the same loop without sleeps. The median step counts: others share the machine."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile, schedule  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

pytestmark = pytest.mark.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
STEPS_WARM, STEPS_KEPT = 2, 4
BATCH = 4


class Sleepy(Dataset):
    """Samples that take some time; how long is summed up."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.slept_ns = 0

    def __len__(self):
        return BATCH * (STEPS_WARM + STEPS_KEPT + 1)

    def __getitem__(self, index):
        began = time.perf_counter_ns()
        if self.seconds:
            time.sleep(self.seconds)
        self.slept_ns += time.perf_counter_ns() - began
        return torch.full((64,), float(index))


def train(path, load_s, pause_s, model):
    """Plants of each kept step: [(ns in the dataset, ns between operators)]."""
    data = Sleepy(load_s)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    plants = []
    planned = schedule(wait=0, warmup=STEPS_WARM, active=STEPS_KEPT, repeat=1)

    def pause():
        began = time.perf_counter_ns()
        if pause_s:
            time.sleep(pause_s)
        return time.perf_counter_ns() - began

    with profile(activities=[ProfilerActivity.CPU], schedule=planned) as recording:
        for batch in DataLoader(data, batch_size=BATCH):
            loss = model(batch).square().mean()
            paused_ns = pause()
            loss.backward()
            paused_ns += pause()
            optimizer.step()
            optimizer.zero_grad()
            plants.append((data.slept_ns, paused_ns))
            data.slept_ns = 0
            recording.step()
            if len(plants) == STEPS_WARM + STEPS_KEPT:
                break
    recording.export_chrome_trace(str(path))
    return plants[STEPS_WARM:]


def steps_of(path):
    done = subprocess.run([PROGRAM, "report", "--json", path], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return json.loads(done.stdout)["steps"]


def assert_near(steps, cause, without_ns, plants_ns):
    got_ns = [step["idle_by_cause_ns"][cause] - without_ns for step in steps]
    off_ns = statistics.median(g - p for g, p in zip(got_ns, plants_ns, strict=True))
    room_ns = max(statistics.median(plants_ns) * 0.05, 100_000)
    assert abs(off_ns) <= room_ns, (cause, got_ns, plants_ns)


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))


@pytest.fixture(scope="module")
def unplanted(model, tmp_path_factory):
    """Median causes of a step that sleeps nowhere: its Python, its sampler, its collating."""
    path = tmp_path_factory.mktemp("unplanted") / "unplanted.pt.trace.json"
    train(path, 0, 0, model)
    steps = [step["idle_by_cause_ns"] for step in steps_of(path)]
    return {cause: int(statistics.median(s[cause] for s in steps)) for cause in steps[0]}


@pytest.mark.parametrize(("load_s", "pause_s"), [(0.008, 0.02), (0.015, 0), (0, 0.03)])
def test_waits_are_found(tmp_path, model, unplanted, load_s, pause_s):
    path = tmp_path / "planted.pt.trace.json"
    plants = train(path, load_s, pause_s, model)
    steps = steps_of(path)
    assert len(steps) == STEPS_KEPT
    loaded_ns, paused_ns = zip(*plants, strict=True)
    if load_s:
        assert_near(steps, "data", unplanted["data"], loaded_ns)
    if pause_s:
        assert_near(steps, "host_code", unplanted["host_code"], paused_ns)
    for step in steps:
        causes = step["idle_by_cause_ns"]
        assert sum(causes.values()) == step["idle_ns"] <= step["dur_ns"]
        for cause in ("sync", "launch", "allocator", "collective", "kernel_to_kernel", "unknown"):
            assert causes[cause] == 0


def run_planted(*words):
    command = [sys.executable, ROOT / "tests" / "device" / "planted_waits.py", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it is a part of device-test")
def test_programs_for_the_device(tmp_path):
    """Those that run without a GPU; and a plant that was longer than the report can know."""
    done = run_planted(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stdout
    assert "allocator: left out" in done.stdout
    plants = tmp_path / "between_operators.plants.json"
    doc = json.loads(plants.read_text())
    for step in doc["planted"]:
        step["host_code"] += 2_000_000
    plants.write_text(json.dumps(doc))
    done = run_planted("--check", PROGRAM, tmp_path)
    assert done.returncode == 1 and done.stdout.count("WRONG host_code") == 1
