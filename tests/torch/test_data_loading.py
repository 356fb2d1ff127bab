"""Goal: DataLoadingProfiler tells reading, transforms, collating and waiting apart, in the process
and in workers, and changes nothing. Method: data sets that sleep for known times. On a busy machine
sleeps last longer, so each part holds its sleeps, and all parts fit into the time that passed."""

import gc
import multiprocessing
import random
import time

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

READ_S, CHANGE_S, COLLATE_S = 0.004, 0.003, 0.006
SIZE, BATCH = 24, 4
data = torch.utils.data


class Rest:
    """A transform that takes a while, and can be sent to other processes."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, x):
        time.sleep(self.seconds)
        return x + 1


class Chain:
    """As torchvision's Compose."""

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x


class Slow(data.Dataset):
    def __init__(self, transform=None):
        self.transform = transform

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        time.sleep(READ_S)
        x = torch.full((3,), float(index))
        return self.transform(x) if self.transform else x


class Stream(data.IterableDataset):
    def __init__(self):
        self.transform = Rest(CHANGE_S)

    def __iter__(self):
        for index in range(SIZE):
            time.sleep(READ_S)
            yield self.transform(torch.full((3,), float(index)))


def slow_collate(samples):
    time.sleep(COLLATE_S)
    return torch.stack(samples)


@pytest.fixture
def profile(ks):
    return ks.DataLoadingProfiler().profile_dataloader


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["map", "iterable"])
def test_parts_of_a_batch(profile, workers, kind):
    dataset = Slow(Rest(CHANGE_S)) if kind == "map" else Stream()
    loader = data.DataLoader(
        dataset, batch_size=BATCH, num_workers=workers, collate_fn=slow_collate
    )
    stats = profile(loader, 6)
    parts = stats["parts"]
    assert stats["total_batches"] == 6 and stats["num_workers"] == workers
    assert parts["read"]["min"] >= BATCH * READ_S
    assert parts["transform"]["min"] >= BATCH * CHANGE_S
    assert parts["collate"]["min"] >= COLLATE_S
    assert stats["avg_preprocessing_time"] == parts["transform"]["mean"]
    loading = parts["read"]["mean"] + parts["collate"]["mean"]
    assert stats["avg_loading_time"] == pytest.approx(loading)
    made = sum(parts[part]["total"] for part in ("read", "transform", "collate"))
    if workers == 0:
        assert made <= parts["wait"]["total"] <= stats["total_time"]
        assert "queue" not in parts and stats["workers"] == {}
    else:
        assert set(stats["workers"]) == {"0", "1"}
        assert parts["queue"]["count"] == 6
        # Fetching in a worker is reading and transforming.
        fetched = sum(each["total"] for each in stats["workers"].values())
        assert fetched == pytest.approx(parts["read"]["total"] + parts["transform"]["total"])
    assert stats["throughput"] == pytest.approx(6 / stats["total_time"])


def test_parts_are_not_each_others(ks, monkeypatch):
    """By a clock that only the parts move: exactly so many ns each."""
    from kinetoscope.torch import measured_loader

    class Clock:
        now = 0

        def __call__(self):
            return self.now

        def rest(self, ns, value):
            self.now += ns
            return value

    class Ticking:  # for TimedCall, whose clock is in C
        def __init__(self, function):
            self.function, self.total = function, 0

        def __call__(self, value):
            began = clock.now
            result = self.function(value)
            self.total += clock.now - began
            return result

        def take(self):
            taken, self.total = self.total, 0
            return taken, 1

    class Set(data.Dataset):
        def __init__(self):
            self.transform = lambda x: clock.rest(1_000, x)

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return self.transform(clock.rest(30_000, index))

    clock = Clock()
    monkeypatch.setattr(measured_loader, "perf_counter_ns", clock)
    monkeypatch.setattr(measured_loader, "TimedCall", Ticking)
    loader = data.DataLoader(Set(), 2, collate_fn=lambda samples: clock.rest(500_000, samples))
    for batch in ks.DataLoadingProfiler().measured(loader):
        times = batch.times
        assert (times["fetch"], times["transform"], times["collate"]) == (62_000, 2_000, 500_000)
    assert clock.now == 8 * 31_000 + 4 * 500_000
    profiled = ks.DataLoadingProfiler().profile_dataloader(loader)
    assert profiled["parts"]["read"]["total"] == pytest.approx(8 * 30_000e-9)
    assert profiled["avg_loading_time"] == pytest.approx(560_000e-9)
    assert profiled["avg_preprocessing_time"] == pytest.approx(2_000e-9)


def test_spawned_workers(profile):
    loader = data.DataLoader(
        Slow(Chain([Rest(CHANGE_S)])),
        batch_size=BATCH,
        num_workers=1,
        multiprocessing_context="spawn",
    )
    stats = profile(loader)
    assert stats["total_batches"] == SIZE // BATCH
    assert stats["parts"]["transform"]["min"] >= BATCH * CHANGE_S
    assert stats["transforms"]["0:Rest"]["min"] >= BATCH * CHANGE_S


def test_no_worker_stays(profile):
    """Fewer batches than there are, from workers that would wait for the next epoch."""
    loader = data.DataLoader(Slow(), batch_size=2, num_workers=2, persistent_workers=True)
    assert profile(loader, 3)["total_batches"] == 3
    gc.collect()
    assert multiprocessing.active_children() == [] and loader._iterator is None


def test_steps_of_a_compose_and_data_sets_in_data_sets(profile):
    chain = Chain([Rest(0.002), Rest(0.005)])
    parts = data.ConcatDataset([Slow(chain), Slow(Rest(0.001))])
    loader = data.DataLoader(data.Subset(parts, range(SIZE)), batch_size=BATCH)
    stats = profile(loader)
    first, second = (stats["transforms"][name]["mean"] for name in ("0:Rest", "1:Rest"))
    assert first >= BATCH * 0.002 and second >= BATCH * 0.005
    # The steps are inside of the whole, and that inside of fetching.
    assert first + second <= stats["avg_preprocessing_time"] <= stats["parts"]["wait"]["mean"]


def test_batches_are_the_same_and_nothing_is_changed(ks):
    transform = Chain([Rest(0), Rest(0)])
    steps = list(transform.transforms)
    dataset = Slow(transform)
    generator = torch.Generator().manual_seed(4)
    loader = data.DataLoader(dataset, batch_size=5, shuffle=True, generator=generator)
    before = (torch.get_rng_state(), random.getstate(), generator.get_state())
    profiler = ks.DataLoadingProfiler()
    profiler.profile_dataloader(loader)
    after = (torch.get_rng_state(), random.getstate(), generator.get_state())
    assert torch.equal(before[0], after[0]) and before[1] == after[1]
    assert torch.equal(before[2], after[2])
    assert loader.dataset is dataset and dataset.transform is transform
    assert transform.transforms == steps and loader.collate_fn is data.default_collate
    theirs = list(loader)
    generator.set_state(before[2])
    ours = [each.batch for each in profiler.measured(loader)]
    assert len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


def test_data_sets_see_themselves(ks):
    """isinstance, attributes and what a worker sets are those of the data set."""
    seen = []

    class Proud(Slow):
        def __getitem__(self, index):
            seen.append((type(self).__name__, data.get_worker_info()))
            return torch.ones(1)

        def __getitems__(self, indices):
            return [self[index] for index in indices]

    loader = data.DataLoader(Proud(), batch_size=3)
    measured = ks.DataLoadingProfiler().measured(loader)
    assert isinstance(measured.dataset, Proud) and len(measured) == len(loader)
    measured.dataset.note = 5
    assert measured.dataset.note == 5
    assert len(list(measured)) == 8 and seen[0] == ("Proud", None)


def test_pinning_is_measured(ks, monkeypatch):
    """Without a GPU torch does not pin. Its thread asks the batch, as this does."""
    loader = data.DataLoader(Slow(), batch_size=2)
    batch = next(iter(ks.DataLoadingProfiler().measured(loader)))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self, device=None: Rest(0.01)(self))
    pinned = batch.pin_memory()
    assert torch.equal(pinned.batch, batch.batch + 1) and pinned.times["pin"] >= 10_000_000


def test_transfer(profile):
    stats = profile(data.DataLoader(Slow(), batch_size=4), 3, device="cpu")
    assert stats["parts"]["transfer"]["count"] == 3 and stats["total_batches"] == 3


def test_other_iterables(profile):
    stats = profile([1, 2, 3])
    assert stats["total_batches"] == 3 and stats["num_workers"] is None


def test_switching_transforms_off(make):
    loader = data.DataLoader(Slow(Rest(CHANGE_S)), batch_size=BATCH)
    stats = make(profile_preprocessing=False).data_loading_profiler.profile_dataloader(loader, 3)
    assert stats["avg_preprocessing_time"] == 0 and "transform" not in stats["parts"]
    assert stats["avg_loading_time"] >= BATCH * (READ_S + CHANGE_S)


def test_errors(profile):
    class Broken(Slow):
        def __getitem__(self, index):
            raise LookupError("planted")

    for workers in (0, 1):
        state = torch.get_rng_state()
        with pytest.raises(LookupError, match="planted"):
            profile(data.DataLoader(Broken(), batch_size=2, num_workers=workers))
        assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ValueError, match="empty"):
        profile(data.DataLoader([], batch_size=2))
    with pytest.raises(TypeError, match="int"):
        profile(5)


def test_advice(ks):
    profiler = ks.DataLoadingProfiler()
    slow = {"total_batches": 10, "avg_loading_time": 0.05, "avg_preprocessing_time": 0.0}
    slow["num_workers"] = 0
    loader = data.DataLoader(Slow(), batch_size=2)
    (sentence,) = profiler.identify_bottlenecks(slow)
    assert "num_workers" in sentence and "50 ms" in sentence
    assert profiler.identify_bottlenecks(slow, step_time=2.0) == []
    assert profiler.optimize_dataloader(loader, slow, step_time=2.0) == {}
    wanted = profiler.optimize_dataloader(loader, slow, step_time=0.8)
    assert wanted["num_workers"] == 1 and loader.num_workers == 0  # 0.05 s fit into 0.75 s
    changed = {**slow, "avg_loading_time": 0.01, "avg_preprocessing_time": 0.05}
    assert any("transforms" in each for each in profiler.identify_bottlenecks(changed))
