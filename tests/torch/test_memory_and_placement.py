"""Goal: snapshots are torch's own numbers, and copies between devices are counted with their bytes.
Method: torch's functions of a GPU replaced by known numbers, so that nothing here says that the
snapshots are right on one; the "meta" device, which every machine has; sizes by hand."""

import time

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.fixture
def allocator(monkeypatch):
    """A GPU's allocator that the test sets."""
    state = {"memory_allocated": 0, "memory_reserved": 0}
    state |= {"max_memory_allocated": 0, "max_memory_reserved": 0}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in state:
        monkeypatch.setattr(torch.cuda, name, lambda device=None, name=name: state[name])
    monkeypatch.setattr(
        torch.cuda,
        "reset_peak_memory_stats",
        lambda device=None: state.update(max_memory_allocated=0),
    )
    return state


def test_snapshots_and_growth(ks, allocator):
    profiler = ks.TorchMemoryProfiler()
    for index in range(5):
        allocator.update(memory_allocated=1000 + 300 * index, memory_reserved=4096)
        snapshot = profiler.snapshot_memory(f"step{index}")
    assert snapshot["tag"] == "step4" and abs(snapshot["timestamp"] - time.time()) < 5
    assert (snapshot["allocated"], snapshot["reserved"], snapshot["max_reserved"]) == (
        2200,
        4096,
        0,
    )
    for index, kept in enumerate(profiler.memory_snapshots):
        kept["timestamp"] = 100.0 + 2 * index
    growth = profiler.analyze_growth()
    assert growth["bytes_total"] == 1200 and growth["snapshots"] == 5
    assert growth["bytes_per_snapshot"] == pytest.approx(300)
    assert growth["bytes_per_second"] == pytest.approx(150)
    metrics = profiler.current_metrics()
    assert metrics["gpu_memory_cached"] == 4096 - 2200


def test_decorator(ks, allocator):
    @ks.memory_profile
    def use(size, fail=False):
        """Takes memory."""
        allocator.update(memory_allocated=size, max_memory_allocated=size + 7)
        if fail:
            raise ValueError("planted")
        return size

    allocator["max_memory_allocated"] = 10**9
    assert use(5000) == 5000 and use.__doc__ == "Takes memory."
    with pytest.raises(ValueError, match="planted"):
        use(60, fail=True)
    tags = [(s["tag"], s["max_allocated"]) for s in use.memory_profiler.memory_snapshots]
    assert tags == [("before_use", 0), ("after_use", 5007), ("before_use", 0), ("after_use", 67)]


def test_without_a_gpu(ks, monkeypatch, make):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    profiler = ks.TorchMemoryProfiler()
    assert profiler.snapshot_memory("x") is None and profiler.memory_snapshots == []
    profiler.reset_peak_stats()
    assert profiler.analyze_growth() == {} and profiler.current_metrics() == {}
    assert ks.memory_profile(lambda x: x + 1)(1) == 2


def test_switch(ks, allocator):
    config = ks.create_profiling_config(profile_cuda_memory=False)
    assert ks.TorchMemoryProfiler(config).snapshot_memory("x") is None


def test_copies_are_counted(ks, naps):
    x, y = torch.ones(10, 4), torch.ones(5, dtype=torch.float64)
    target = torch.empty(10, 4, device="meta")
    target.copy_(x.to("meta"))  # torch loads what it needs for that
    began = time.perf_counter()
    with ks.profile_device_placement("move") as placement:
        naps.take("rest", 0.02)
        x.to("meta")
        y.to("meta")
        target.copy_(x)
        x.to("cpu")  # is there already
        x.clone().copy_(x + 1)  # stays where it is
        x.to(torch.float64)
    took = time.perf_counter() - began
    result = placement.result
    assert result["operation"] == "move" and result["device_transfers"] == 3
    assert result["bytes"] == 160 + 40 + 160
    assert result["direction"] == "cpu_to_meta"
    assert result["directions"] == {"cpu_to_meta": [3, 360]}
    assert naps.total("rest") <= result["duration"] <= took


def test_placement_ends_with_its_block(ks):
    placement = ks.profile_device_placement("x")
    with pytest.raises(KeyError), placement:
        raise KeyError("planted")
    assert placement.result["device_transfers"] == 0 and placement.result["direction"] is None
    torch.ones(2).to("meta")
    assert placement.result["device_transfers"] == 0
    with placement, pytest.raises(RuntimeError, match="in use"), placement:
        pass
