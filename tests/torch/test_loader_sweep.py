"""Goal: settings of a DataLoader are found by what they gain, wrong ones are named. Method: data
sets that take a known time, or go wrong in workers."""

import random
import time

import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import (  # noqa: E402
    DataLoader,
    IterableDataset,
    TensorDataset,
    get_worker_info,
)

pytestmark = pytest.mark.torch

WORKERS = [{"batch_size": 4, "num_workers": count} for count in (0, 2)]


class Samples(torch.utils.data.Dataset):
    """`value(i)` after so many seconds."""

    def __init__(self, size, seconds=0.0, value=float):
        self.size, self.seconds, self.value = size, seconds, value

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.full((8,), float(self.value(index)))


@pytest.fixture
def sweep(ks):
    return ks.sweep_dataloader


def test_slow_samples_want_workers(sweep):
    data, random_before = Samples(64, 0.015), torch.get_rng_state().tolist()
    result = sweep(data, WORKERS, seconds=4)
    assert torch.get_rng_state().tolist() == random_before
    assert result.best == WORKERS[1]
    row = result.best_row
    assert row["verdict"] == "faster" and 1.3 < row["speedup"] < 2.6
    assert 0.055 < result.rows[0]["time"] < 0.15 and row["start_time"] > 0
    assert row["samples_per_second"] == pytest.approx(4 / row["time"])
    assert result.code == ["loader = DataLoader(dataset, batch_size=4, num_workers=2)"]


def test_quick_samples_want_none(sweep):
    data = TensorDataset(torch.randn(64, 8), torch.arange(64))
    result = sweep(data, WORKERS, seconds=4)
    assert result.best == WORKERS[0] and result.rows[1]["verdict"] == "slower"


def test_a_step_that_is_longer_hides_loading(sweep):
    """Loading takes 4 ms of a batch, training 12: two workers hide the 4, and that is all."""
    configs = [WORKERS[0], {**WORKERS[1], "persistent_workers": True}]
    result = sweep(Samples(64, 0.001), configs, step=lambda batch: time.sleep(0.012), seconds=3)
    assert 1.1 < result.rows[1]["speedup"] < 1.6


def test_batches_are_compared_by_their_samples(sweep):
    configs = [{"batch_size": size, "num_workers": 0} for size in (2, 8)]
    result = sweep(Samples(64, 0.002), configs, seconds=2)
    assert result.rows[1]["speedup"] == pytest.approx(1, abs=0.25)


def in_worker(index):
    return index + (get_worker_info() is not None)


def fails_in_worker(index):
    if get_worker_info() is not None:
        raise ValueError("planted")
    return index


def drawn(index):
    return random.random()


@pytest.mark.parametrize(
    ("value", "verdict", "reason"),
    [
        (in_worker, "rejected", "other values"),
        (fails_in_worker, "failed", "ValueError"),
        (drawn, "slower", None),
    ],
)
def test_what_goes_wrong_in_workers_is_named(sweep, value, verdict, reason):
    before = random.getstate()
    result = sweep(Samples(32, 0, value), WORKERS, seconds=0.5)
    assert random.getstate() == before
    row = result.rows[1]
    assert row["verdict"] == verdict and result.best == WORKERS[0]
    assert row["reason"] is None if reason is None else reason in row["reason"]


def test_a_loader_is_tuned_from_its_own_setting(sweep):
    generator = torch.Generator().manual_seed(7)
    loader = DataLoader(Samples(80, 0.01), 4, shuffle=True, generator=generator, drop_last=True)
    kept = generator.get_state().tolist(), dict(vars(loader))
    result = sweep(loader, seconds=1)
    assert (generator.get_state().tolist(), dict(vars(loader))) == kept
    first = result.rows[0]["config"]
    assert first["num_workers"] == 0 and first["batch_size"] == 4
    assert result.best["num_workers"] >= 2 and result.best["persistent_workers"]
    assert result.best_row["speedup"] > 1.5
    assert {row["verdict"] for row in result} <= {
        *("baseline", "faster", "left_out", "cannot_tell", "no_difference", "slower")
    }


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(64.0))


def test_an_iterable_keeps_its_workers(sweep):
    """Each worker would give all of it."""
    result = sweep(DataLoader(Stream(), 4), seconds=1)
    assert len(result) == 1 and result.best["num_workers"] == 0


def test_what_gives_no_samples_is_refused(sweep):
    with pytest.raises(TypeError, match="neither a dataset"):
        sweep(7)
    with pytest.raises(ValueError, match="no config"):
        sweep(Samples(8), [])


# -------------------------------------------------------------------- streams that end


class Once(IterableDataset):
    """A stream that can be read one time, and no more."""

    def __init__(self, count):
        self.left = iter(torch.arange(float(count)))

    def __iter__(self):
        return self.left


@pytest.mark.parametrize(
    "make",
    [
        lambda: DataLoader(Samples(0), 4),
        lambda: DataLoader(Samples(3), 4, drop_last=True),
        lambda: DataLoader(Once(0), 4),
        lambda: DataLoader(Once(24), 4),
        lambda: Once(9),
        lambda: Samples(0),
    ],
)
def test_what_ends_is_refused(sweep, make):
    with pytest.raises(ValueError, match="gives no batch"):
        sweep(make(), seconds=0.2)
    with pytest.raises(ValueError, match="gives no batch"):
        sweep(make(), [{"batch_size": 4}, {"batch_size": 4, "timeout": 0}], seconds=0.2)


def test_a_setting_that_gives_nothing_fails_alone(sweep):
    configs = [{"batch_size": 4}, {"batch_size": 64, "drop_last": True}]
    result = sweep(Samples(32), configs, seconds=0.2)
    assert result.best == configs[0]
    assert (result.rows[1]["verdict"], result.rows[1]["reason"]) == ("failed", "it gives no batch")


# -------------------------------------------------------------------- random numbers


class Own(torch.utils.data.Dataset):
    """Draws from a generator of its own."""

    def __init__(self, generator):
        self.generator = generator

    def __len__(self):
        return 32

    def __getitem__(self, index):
        generator = self.generator
        if isinstance(generator, random.Random):
            return generator.random()
        if isinstance(generator, torch.Generator):
            return torch.rand(2, generator=generator)
        return generator.random()


class Shuffled(torch.utils.data.Sampler):
    """Of batches, by a generator that has another name."""

    def __init__(self, draw):
        self.draw = draw

    def __len__(self):
        return 8

    def __iter__(self):
        order = torch.randperm(32, generator=self.draw).tolist()
        return iter([order[at : at + 4] for at in range(0, 32, 4)])


def state_of(generator):
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, torch.Generator):
        return generator.get_state().tolist()
    return str(generator.bit_generator.state)


def numpy_generator():
    return pytest.importorskip("numpy").random.default_rng(7)


def torch_generator():
    return torch.Generator().manual_seed(7)


PLAIN = Samples(32)
SAMPLER = torch.utils.data.RandomSampler


@pytest.mark.parametrize(
    ("make_generator", "call"),
    [
        (torch_generator, lambda g, run: run(DataLoader(PLAIN, 4, shuffle=True, generator=g))),
        (
            torch_generator,
            lambda g, run: run(DataLoader(PLAIN, 4, sampler=SAMPLER(PLAIN, generator=g))),
        ),
        (torch_generator, lambda g, run: run(DataLoader(PLAIN, batch_sampler=Shuffled(g)))),
        (torch_generator, lambda g, run: run(DataLoader(Own(g), 4))),
        (lambda: random.Random(7), lambda g, run: run(DataLoader(Own(g), 4))),
        (numpy_generator, lambda g, run: run(DataLoader(Own(g), 4))),
        (torch_generator, lambda g, run: run(torch.utils.data.ConcatDataset([PLAIN, Own(g)]))),
        (torch_generator, lambda g, run: run(torch.utils.data.Subset(Own(g), range(8)))),
        (torch_generator, lambda g, run: run(PLAIN, shuffle=True, generator=g)),
        (torch_generator, lambda g, run: run(PLAIN, sampler=SAMPLER(PLAIN, generator=g))),
        (torch_generator, lambda g, run: run(PLAIN, [{"shuffle": True, "generator": g}])),
    ],
)
def test_generators_of_the_program_are_as_before(sweep, make_generator, call):
    generator = make_generator()
    before = state_of(generator)

    def run(data, configs=None, **options):
        given = [{"num_workers": 0}, {"num_workers": 0, "pin_memory": False}]
        if isinstance(data, DataLoader):
            given = [{}, {"num_workers": 0}]
        return sweep(data, configs or given, seconds=0.1, **options)

    result = call(generator, run)
    assert state_of(generator) == before
    assert all(row["reason"] is None for row in result), result.table()


@pytest.mark.parametrize("value", [float, in_worker])
def test_a_shuffled_loader_is_checked_by_its_values(sweep, value):
    """Loaders whose generators are in the same state give the same batches."""
    generator = torch.Generator().manual_seed(7)
    loader = DataLoader(Samples(32, 0, value), 4, shuffle=True, generator=generator)
    row = sweep(loader, [{}, {"num_workers": 2}], seconds=0.2).rows[1]
    assert row["reason"] is None if value is float else "other values" in row["reason"]


class Sized(torch.utils.data.Dataset):
    """Random samples of a size."""

    def __init__(self, size_of, dtype_of=lambda: torch.float32):
        self.size_of, self.dtype_of = size_of, dtype_of

    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.rand(self.size_of()).to(self.dtype_of())


def larger_in_worker():
    return 8 + (get_worker_info() is not None)


def of_any_size():
    return int(torch.randint(4, 400, ()))


def double_in_worker():
    return torch.float32 if get_worker_info() is None else torch.float64


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (Sized(lambda: 8), None),
        (Sized(larger_in_worker), "(1, 9) in place of torch.float32 (1, 8)"),
        (Sized(of_any_size), None),
        (Sized(lambda: 8, double_in_worker), "torch.float64"),
        (Sized(of_any_size, double_in_worker), "torch.float64"),
    ],
)
def test_random_samples_have_shapes_and_types(sweep, data, reason):
    configs = [{"batch_size": 1, "num_workers": count} for count in (0, 2)]
    row = sweep(data, configs, seconds=0.1).rows[1]
    assert row["reason"] is None if reason is None else reason in row["reason"]


# -------------------------------------------------------------------- what a batch takes


def variant_of(config, data=None, span=None, step=None):
    from kinetoscope.tune.loader_timing import LoaderVariant

    common = {"dataset": data or Samples(64)}
    return LoaderVariant(common, config, step, torch.device("cpu"), span=span)


def test_workers_that_persist_start_once(ks):
    """Others start for each epoch: each batch has its share of that."""
    passing = variant_of({"batch_size": 4, "num_workers": 2})
    passing.start_ns = 16_000_000
    assert passing._start_share() == 1_000_000
    kept = variant_of({"batch_size": 4, "num_workers": 2, "persistent_workers": True})
    kept.start_ns = 16_000_000
    assert kept._start_share() == 0


def test_all_settings_are_timed_over_the_same_batches(ks):
    from kinetoscope.tune.loader_timing import Span

    seen = {}
    span = Span(4)
    for workers in (0, 1, 4):
        taken = seen.setdefault(workers, [])
        config = {"batch_size": 4, "num_workers": workers}
        step = lambda batch, taken=taken: taken.append(int(batch[0, 0]))  # noqa: E731
        variant = variant_of(config, span=span, step=step)
        variant.settle()
        taken.clear()
        variant.time()
    assert span.skipped == 4 and span.wanted >= 4
    first = seen[4]
    assert len(first) > 4 and seen[0][: len(first)] == first == seen[1][: len(first)]


def test_short_epochs_and_slow_batches_are_timed_all_the_same(ks):
    from kinetoscope.tune.loader_timing import Span

    slow = Span(8)
    slow.settle(3_000_000_000)
    assert (slow.skipped, slow.wanted) == (1, 1)
    quick = Span(8)
    quick.settle(1)
    assert (quick.skipped, quick.wanted) == (8, 128)
    for config in ({"num_workers": 0}, {"num_workers": 1}, {"num_workers": 3}):
        variant = variant_of({"batch_size": 4, **config}, Samples(8), quick)
        assert variant.time() > 0
