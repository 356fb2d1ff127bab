"""Goal: waits of known length in a real training loop on the CPU are found again as idle time of
the right cause. Method: the loop sleeps in its dataset and between operators, and measures both
for each step; the report of its profile must say the same within 5 % or 100 us, beyond what the
report says of the same loop without sleeps."""

import json
import os
import pathlib
import statistics
import subprocess
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


def assert_near(got_ns, plant_ns):
    assert abs(got_ns - plant_ns) <= max(plant_ns * 0.05, 100_000), (got_ns, plant_ns)


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
    for step, (loaded_ns, paused_ns) in zip(steps, plants, strict=True):
        causes = step["idle_by_cause_ns"]
        assert sum(causes.values()) == step["idle_ns"] <= step["dur_ns"]
        if load_s:
            assert_near(causes["data"] - unplanted["data"], loaded_ns)
        if pause_s:
            assert_near(causes["host_code"] - unplanted["host_code"], paused_ns)
        for cause in ("sync", "launch", "allocator", "collective", "kernel_to_kernel", "unknown"):
            assert causes[cause] == 0
