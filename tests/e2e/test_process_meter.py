"""Goal: what `kscope run` notes of threads, cores and the control group is what was there.

Method: files of control groups of both versions by hand; programs whose loader sleeps or computes,
in the process and in workers.
"""

import os
import sys
import threading
import time
from pathlib import Path
from threading import get_native_id
from types import SimpleNamespace

import pytest
from recorded import run_recorded, write_program

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))

from kinetoscope.torch import numa, process_meter  # noqa: E402
from kinetoscope.torch.process_meter import LoaderMeter, ProcessMeter, read_throttling  # noqa: E402

V2 = "usage_usec 5\nnr_periods 30\nnr_throttled 4\nthrottled_usec 1200\n"
V1 = "nr_periods 30\nnr_throttled 4\nthrottled_time 1200000\n"
COUNTS = {"periods": 30, "throttled": 4, "throttled_ns": 1200000}
LIMIT = {"quota_us": 150000, "period_us": 100000}


def group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)


def throttling(tmp_path, table):
    (tmp_path / "table").write_text(table)
    return read_throttling((str(tmp_path / "mount"),), str(tmp_path / "table"))


def test_version_2(tmp_path):
    group(tmp_path / "mount" / "a" / "b", cpu_stat=V2, cpu_max="150000 100000\n")
    assert throttling(tmp_path, "0::/a/b\n") == {**COUNTS, **LIMIT}


def test_version_1(tmp_path):
    limit = {"cpu_cfs_quota_us": "150000\n", "cpu_cfs_period_us": "100000\n"}
    group(tmp_path / "mount" / "job", cpu_stat=V1, **limit)
    assert throttling(tmp_path, "3:memory:/x\n2:cpu,cpuacct:/job\n") == {**COUNTS, **LIMIT}


@pytest.mark.parametrize("limit", ["max 100000\n", "", "junk\n"])
def test_no_limit(tmp_path, limit):
    group(tmp_path / "mount", cpu_stat=V2, cpu_max=limit)
    assert throttling(tmp_path, "0::/not/there\n") == COUNTS


def test_no_group(tmp_path):
    assert throttling(tmp_path, "") == {}
    assert read_throttling((str(tmp_path),), str(tmp_path / "none")) == {}


ALWAYS = {"threads", "cores", "local_ranks", "wall_ns", "cpu_ns"}
TORCH = SimpleNamespace(get_num_threads=lambda: 3)


def busy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_the_thread_that_began_is_measured():
    """A program may end in another thread than the one that has the steps."""
    meter = ProcessMeter(TORCH)
    is_begun, is_read = threading.Event(), threading.Event()

    def steps():
        meter.begin()
        is_begun.set()
        is_read.wait()

    thread = threading.Thread(target=steps)
    thread.start()
    is_begun.wait()
    busy(0.2)
    members = meter.members()
    is_read.set()
    thread.join()
    assert members["cpu_ns"] >= 0.2e9 and 0 <= members["thread_run_ns"] < 0.1e9


def test_a_thread_that_ended_says_nothing():
    meter = ProcessMeter(TORCH)
    thread = threading.Thread(target=meter.begin)
    thread.start()
    thread.join()
    while os.path.exists(f"/proc/{meter._thread}"):
        time.sleep(0.001)
    assert meter.members().keys() >= ALWAYS and "thread_run_ns" not in meter.members()


def test_without_proc(monkeypatch):
    monkeypatch.setattr(process_meter, "_text", lambda path: "")
    meter = ProcessMeter(TORCH)
    meter.begin()
    assert meter.members().keys() == ALWAYS


def test_a_proc_that_says_something_else(monkeypatch):
    monkeypatch.setattr(process_meter, "_text", lambda path: "one two three\n")
    meter = ProcessMeter(TORCH)
    meter.begin()
    assert meter.members() == {}


def test_a_name_of_any_bytes(tmp_path):
    folder = tmp_path / "mount" / "caf\u00e9"
    group(folder, cpu_stat=V2)
    assert throttling(tmp_path, "0::/caf\u00e9\n") == COUNTS
    (tmp_path / "bytes").write_bytes(b"7 (\xff) R")
    assert process_meter._text(str(tmp_path / "bytes")).endswith(") R")


def test_a_loader_within_a_loader_counts_once():
    meter = LoaderMeter()
    began_ns = time.perf_counter_ns()
    outer = meter.begin()
    inner = meter.begin()
    time.sleep(0.02)
    meter.end(inner, None)
    assert meter.wall_ns == 0
    meter.end(outer, None)
    assert 0.02e9 <= meter.wall_ns <= time.perf_counter_ns() - began_ns


def test_a_worker_that_is_closed_is_no_fault():
    class Closed:
        @property
        def pid(self):
            raise ValueError("process object is closed")

    meter = LoaderMeter()
    meter.end(meter.begin(), SimpleNamespace(_workers=[Closed()]))
    assert meter.wall_ns > 0 and meter.workers == {}


PROGRAM = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self):
        return 80
    def __getitem__(self, index):
        if SLEEPS:
            time.sleep(0.004)
        else:
            end = time.thread_time() + 0.004
            while time.thread_time() < end:
                pass
        return torch.ones(8)
if __name__ == "__main__":
    torch.set_num_threads(3)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Data(), batch_size=4, num_workers=WORKERS):
        model(batch).sum().backward()
        optimizer.step()
"""


def process_of(folder, sleeps, workers):
    folder.mkdir()
    program = write_program(folder, f"SLEEPS, WORKERS = {sleeps}, {workers}\n" + PROGRAM)
    run = run_recorded(folder, program, steps="4:1:5", stacks=0)
    assert run.returncode == 0, run.stderr
    return run.clean().about["process"]


@pytest.mark.torch
@pytest.mark.parametrize("workers", [0, 2])
def test_loader(tmp_path, workers):
    slept = process_of(tmp_path / "slept", True, workers)
    assert slept["threads"] == 3 and slept["local_ranks"] == 1
    assert slept["cores"] == len(os.sched_getaffinity(0))
    assert slept["workers"] == workers
    assert 0 < slept["loader_ns"] <= slept["wall_ns"]
    assert slept["cpu_ns"] >= slept["thread_run_ns"] * 0.9 > 0 <= slept["thread_wait_ns"]
    used = process_of(tmp_path / "used", False, workers)
    if workers:
        # 20 samples of 4 ms; what a worker did ahead of the window is not in it.
        assert used["worker_cpu_ns"] >= 30e6 > slept["worker_cpu_ns"]
    else:
        assert slept["loader_ns"] >= 80e6 and slept["loader_cpu_ns"] < 40e6
        assert used["loader_cpu_ns"] >= 79e6


PREFETCHED = """
import queue, threading, time, torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self):
        return 80
    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.ones(8)
batches = queue.Queue(2)
def prefetch():
    for batch in DataLoader(Data(), batch_size=4):
        batches.put(batch)
threading.Thread(target=prefetch, daemon=True).start()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    model(batches.get()).sum().backward()
    optimizer.step()
"""


@pytest.mark.torch
def test_a_loader_in_another_thread_is_none_of_the_steps(tmp_path):
    run = run_recorded(tmp_path, write_program(tmp_path, PREFETCHED), steps="4:1:5", stacks=0)
    assert run.returncode == 0, run.stderr
    process = run.clean().about["process"]
    assert process["wall_ns"] > 50e6 and "loader_ns" not in process


MASKED = """
import torch
from torch.utils.data import DataLoader
class Batch(dict):
    pass
def collate(texts):
    mask = torch.zeros(len(texts), 16, dtype=KIND)
    for row, length in zip(mask, texts):
        row[:length] = 1
    return Batch(attention_mask=mask, x=torch.ones(len(texts), 8))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader([2, 4, 6, 8] * 20, batch_size=4, collate_fn=collate):
    model(batch["x"]).sum().backward()
    optimizer.step()
"""


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["torch.long", "torch.bool"])
def test_masks_of_batches(tmp_path, kind):
    program = write_program(tmp_path, f"import torch\nKIND = {kind}\n" + MASKED)
    run = run_recorded(tmp_path, program, steps="4:1:5", stacks=0)
    assert run.returncode == 0, run.stderr
    trace = run.clean()
    use = trace.about["process"]
    batches = use["mask_batches"]
    assert 5 <= batches <= 6
    assert use["mask_slots"] == 64 * batches
    assert use["mask_longest"] == 32 * batches
    assert use["mask_tokens"] == 20 * batches
    # Counting is no operator of the program's.
    assert trace.count("aten::ne") == trace.count("aten::item") == 0


class Odd:
    """What is no mask that can be counted, or no tensor at all."""

    def __init__(self, **members):
        self.__dict__.update(members)

    def __getattr__(self, name):
        raise RuntimeError(f"no {name}")


def test_nodes_of_threads_and_gpus(tmp_path):
    node = tmp_path / "sys/devices/system/node"
    for number, distances in ((0, "10 21"), (2, "21 10")):
        (node / f"node{number}").mkdir(parents=True)
        (node / f"node{number}/distance").write_text(distances + "\n")
    (tmp_path / "sys/devices/system/cpu/cpu5/node2").mkdir(parents=True)
    (tmp_path / "proc/self/task/7").mkdir(parents=True)
    fields = ["S", *map(str, range(35)), "5", "0"]
    (tmp_path / "proc/self/task/7/stat").write_text(f"7 (a) b) {' '.join(fields)}\n")
    device = tmp_path / "sys/bus/pci/devices/0000:3b:00.0"
    device.mkdir(parents=True)
    about = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x3B, pci_device_id=0)
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        current_device=lambda: 0,
        get_device_properties=lambda device: about,
    )
    torch = SimpleNamespace(cuda=cuda)
    assert numa.node_of_thread("self/task/7", tmp_path) == 2
    for text, expected in (("0\n", 0), ("-1\n", None)):
        (device / "numa_node").write_text(text)
        assert numa.node_of_gpu(torch, tmp_path) == expected
    assert numa.distance(2, 0, tmp_path) == 21 and numa.distance(2, 2, tmp_path) == 10
    cuda.is_initialized = lambda: False  # to ask would begin to use the GPU
    assert numa.node_of_gpu(torch, tmp_path) is None


@pytest.mark.parametrize(
    ("nodes", "gpu", "expected"),
    [
        ((0, 0), 2, {"numa_distance": 21, "numa_node": 2}),
        ((0, 2), 2, {"numa_distance": 10, "numa_node": 2}),  # near once is not far
        ((0, None), 2, {}),
        ((0, 0), None, {}),
    ],
)
def test_distance_of_a_window(monkeypatch, nodes, gpu, expected):
    told = iter(nodes)
    monkeypatch.setattr(numa, "node_of_thread", lambda task: next(told))
    monkeypatch.setattr(numa, "node_of_gpu", lambda torch: gpu)
    monkeypatch.setattr(numa, "distance", lambda node, other: 10 if node == other else 21)
    meter = ProcessMeter(SimpleNamespace(get_num_threads=lambda: 1))
    meter.begin()
    members = meter.members()
    assert members["threads"] == 1
    assert {key: value for key, value in members.items() if "numa" in key} == expected


def test_a_thread_is_on_a_node_of_this_machine():
    nodes = list(Path("/sys/devices/system/node").glob("node[0-9]*"))
    node = numa.node_of_thread(f"self/task/{get_native_id()}")
    assert node is None if not nodes else f"node{node}" in [path.name for path in nodes]


def counted(batch):
    meter = LoaderMeter()
    meter.see(batch)
    meter.wall_ns = 1
    members = meter.members()
    names = ("batches", "slots", "longest", "tokens")
    return [members[f"mask_{name}"] for name in names] if "mask_batches" in members else None


def padded(torch, lengths, width=12, value=0, is_left=False, kind=None):
    rows = []
    for number, length in enumerate(lengths, 1):
        text, room = [100 * number + i for i in range(length)], [value] * (width - length)
        rows.append(room + text if is_left else text + room)
    return torch.tensor(rows, dtype=kind)


def test_padding_without_a_mask():
    torch = pytest.importorskip("torch")
    right = padded(torch, [3, 8, 10])
    is_token = right != 0
    expected = [1, 36, 30, 21]
    assert counted((right, is_token, torch.tensor([0, 1, 0]))) == expected
    assert counted({"ids": right, "labels": torch.ones(3)}) == expected
    assert counted(padded(torch, [3, 8, 10], value=-100, kind=torch.int32)) == expected
    assert counted([torch.ones(3, 12), padded(torch, [3, 8, 10], is_left=True)]) == expected


def test_large_batches_cost_little():
    torch = pytest.importorskip("torch")
    many = padded(torch, [3, 12] * 50_000)
    batches, slots, longest, tokens = counted((many, None))
    assert batches == 1 and longest == slots and 0 < slots <= 1 << 18
    assert tokens / slots == pytest.approx(15 / 24, rel=0.01)
    wide = padded(torch, [300_000, 3], width=400_000)  # two rows are looked at, however long
    assert counted(wide) == [1, 800_000, 600_000, 300_003]
    samples = ["a"] * 1000 + [padded(torch, [3, 8, 10])]
    assert counted(samples) is None  # that is no batch of tensors


def test_whole_numbers_that_are_no_padded_text():
    torch = pytest.importorskip("torch")
    inside = padded(torch, [3, 8, 10])
    inside[0, 1] = 0  # the value stands between tokens, too
    for batch in (
        inside,
        torch.zeros(3, 12, dtype=torch.long),  # kinds of tokens: all the same
        torch.arange(12).repeat(3, 1),  # positions
        torch.arange(36).reshape(3, 12),  # texts of one length
        padded(torch, [3, 5, 6], width=7),  # columns of a table
        padded(torch, [3, 8, 10]).double(),
        padded(torch, [3, 8, 10]).to("meta"),
        padded(torch, [3, 8, 10])[None],
    ):
        assert counted(batch) is None


def test_what_is_no_mask_is_left_alone():
    torch = pytest.importorskip("torch")
    device = SimpleNamespace(type="cuda")
    meter = LoaderMeter()
    for mask in (
        None,
        3,
        [[1, 0]],
        torch.ones(2, 3),  # added to the scores
        torch.ones(2, 1, 3, 3, dtype=torch.long),
        torch.ones(4, dtype=torch.long),
        torch.ones(0, 4, dtype=torch.long),
        torch.ones(2, 2, dtype=torch.long).to_sparse(),
        torch.ones(2, 2, dtype=torch.long, device="meta"),
        Odd(device=device),  # nothing else of a tensor on a GPU is asked for
        Odd(),
    ):
        meter.see({"attention_mask": mask})
    for batch in (None, [], (torch.ones(2, 2),), {"x": 1}, torch.ones(2, 2)):
        meter.see(batch)
    meter.wall_ns = 1
    assert "mask_batches" not in meter.members()
    meter.see({"attention_mask": torch.tensor([[1, 1, 0], [0, 0, 1]])})
    members = meter.members()
    assert [members[f"mask_{name}"] for name in ("batches", "slots", "longest", "tokens")] == [
        1,
        6,
        4,
        3,
    ]
    meter.restart()
    meter.wall_ns = 1
    assert "mask_batches" not in meter.members()
