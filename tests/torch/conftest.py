"""What tests of the Python package share: it, and models and data whose times are known."""

import pathlib

import pytest
from naps import Naps

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def ks():
    import sys

    sys.path.insert(0, str(ROOT / "python"))
    import kinetoscope

    return kinetoscope


@pytest.fixture
def make(ks, tmp_path):
    """A CodeProfiler that writes into the test's folder, when it is told to."""

    def make_profiler(**switches):
        switches = {"output_dir": str(tmp_path / "out"), "save_profiles": False, **switches}
        return ks.CodeProfiler(ks.create_profiling_config(**switches))

    return make_profiler


@pytest.fixture
def one_thread():
    """The machine has other things to do, and threads that wait for each other take long then."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def counted_time(ks, monkeypatch):
    """Times of variants are those that Napping naps, on a clock that nothing else moves."""
    import tuned_models
    from kinetoscope.tune import loader_timing, stopwatch

    clock = tuned_models.CountedTime()
    monkeypatch.setattr(tuned_models, "nap", clock.sleep)
    for module in (stopwatch, loader_timing):
        monkeypatch.setattr(module, "perf_counter_ns", clock.perf_counter_ns)
    return clock


@pytest.fixture
def naps():
    """{what: [seconds that a sleep really took]}, filled by naps.take(what, seconds)."""
    return Naps()
