"""Goal: compare() says what is so, and nothing where nothing is. Method: planted clocks, whose
numbers decide, and a few real functions."""

import random
import time

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


@pytest.fixture
def clock(monkeypatch, ks):
    """Times are those that `clock.ns(name)` gives, not those of the machine."""
    from kinetoscope.tune import stopwatch

    class Clock:
        def __init__(self):
            self.random = random.Random(3)
            self.factor = {"a": 1.0, "b": 1.0}
            self.noise = 0.05

        def ns(self, function, calls, device):
            name = function()
            return int(1e7 * self.factor[name] * self.random.lognormvariate(0, self.noise))

    clock = Clock()
    monkeypatch.setattr(stopwatch, "time_least", clock.ns)
    return clock


def a():
    return "a"


def b():
    return "b"


def test_alike_functions_are_alike(ks, clock):
    verdicts = [ks.compare(a, b, seconds=0, memory=False).verdict for _ in range(40)]
    assert verdicts.count("no_difference") >= 38


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.8, "faster"), (1.25, "slower"), (1.0, "no_difference")]
)
def test_differences_are_found(ks, clock, factor, verdict):
    clock.factor["b"] = factor
    told = ks.compare(a, b, seconds=0, memory=False)
    assert told.verdict == verdict
    assert told.interval["low"] <= told.speedup <= told.interval["high"]
    assert told.speedup == pytest.approx(1 / factor, rel=0.05)
    assert told.ratio == pytest.approx(1 / told.speedup)
    assert told.a["time"] == pytest.approx(0.01, rel=0.05)


def test_a_small_difference_must_be_seen_twice(ks, clock, monkeypatch):
    from kinetoscope.tune import function_comparison

    run, trials = function_comparison._run, []

    def first_one_is_off(*args):
        clock.factor["b"] = 1.0 if trials else 0.9
        trials.append(run(*args))
        return trials[-1]

    monkeypatch.setattr(function_comparison, "_run", first_one_is_off)
    told = ks.compare(a, b, seconds=0, memory=False)
    assert trials[0].compare(0, 1)["verdict"] == "faster" and len(trials) == 2
    assert told.verdict in ("no_difference", "cannot_tell")


def test_too_few_rounds_tell_nothing(ks, clock):
    told = ks.compare(a, b, rounds=5, memory=False)
    assert told.verdict == "cannot_tell" and "cannot tell" in told.text


def test_real_functions(ks):
    small, large = torch.ones(40, 40), torch.ones(80, 80)

    def nap_and_double(tensor, seconds):
        time.sleep(seconds)
        return tensor + tensor

    short, long = (
        lambda t=t, s=s: nap_and_double(t, s) for t, s in ((small, 0.004), (large, 0.02))
    )
    told = ks.compare(short, long, seconds=15)
    assert told.verdict == "slower" and told.speedup < 0.8
    assert told.a["peak_bytes"] == 40 * 40 * 4 and told.b["peak_bytes"] == 80 * 80 * 4
    assert told.to_dict()["text"] == told.text in str(told) and "<pre>" in told._repr_html_()


def test_what_functions_raise_passes(ks):
    with pytest.raises(ZeroDivisionError):
        ks.compare(lambda: 1 / 0, a)
    with pytest.raises(TypeError, match="not a function"):
        ks.compare(1, a)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ("faster", "faster", "faster"),
        ("slower", "slower", "slower"),
        ("faster", "slower", "cannot_tell"),
        ("slower", "faster", "cannot_tell"),
        ("faster", "no_difference", "no_difference"),
        ("slower", "cannot_tell", "cannot_tell"),
    ],
)
def test_what_two_trials_say_together(ks, first, second, verdict):
    from kinetoscope.tune.function_comparison import _agreed

    told = _agreed({"verdict": first, "low": 1}, {"verdict": second, "low": 2})
    assert told == {"verdict": verdict, "low": 2}


@pytest.mark.parametrize(("calls", "warm"), [(1, 0), (5, 1)])
def test_short_functions_are_called_once_before_their_block(ks, monkeypatch, calls, warm):
    """That one brings back what the other function drove out of caches; the clock does not run."""
    from kinetoscope.tune import function_comparison, stopwatch

    said, timed = [], []

    def block(function, count, device):
        timed.append(len(said))
        said.append("block")
        return 1000

    monkeypatch.setattr(stopwatch, "time_least", block)
    functions = [lambda: said.append("a"), lambda: said.append("b")]
    options = {"seconds": 0, "rounds": 3, "tolerance": 0.02}
    function_comparison._run(functions, [calls] * 2, torch.device("cpu"), options)
    blocks = said.count("block")
    assert blocks == len(timed) >= 6
    assert said.count("a") + said.count("b") == warm * blocks
    if warm:
        assert all(said[at - 1] in ("a", "b") for at in timed)
