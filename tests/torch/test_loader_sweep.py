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
