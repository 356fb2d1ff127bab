"""Goal: a trial's verdicts are right as often as promised, its numbers those of other programs.

Method: what a trial says of drawn times is computed again here, warm-up by brute force, intervals
by scipy, and must agree to 1e-9; and of many trials whose truth is known, few are wrong.
"""

import itertools
import math
import pathlib
import random
import statistics
import sys

import pytest
from scipy import stats

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from kinetoscope._engine import Trial  # noqa: E402 the package of this tree

LEVEL = 1 - 0.05 / 12
LOOKS = [4, 6, 9, 14, 21, 32, 48, 72, 108, 162, 243, 364, 546, 819]
LEAST = 9  # rounds, for an interval of the median


def run(draw, **options):
    """A trial of two variants whose times `draw(variant)` gives, and these times."""
    trial, times = Trial(2, **options), ([], [])
    for variant in trial:
        ns = max(1, int(draw(variant)))
        trial.add(variant, ns)
        times[variant].append(ns)
    return trial, times


def warm_up(values):
    """How many values to leave out (MSER), where that halves the spread at least."""
    if len(values) < 8:
        return 0

    def spread(first):
        rest = values[first:]
        return statistics.pvariance(rest) / len(rest)

    best = min(range(len(values) // 2 + 1), key=spread)
    return best if spread(best) < spread(0) / 2 else 0


def near(a, b):
    return math.isclose(a, b, rel_tol=1e-9)


def spoiled(rng, spread, slow_start):
    """Draws times with noise, the first ones of each variant five times as long."""
    count = [0, 0]

    def draw(variant):
        count[variant] += 1
        factor = 5 if count[variant] <= slow_start else 1
        return 1e6 * factor * (1 + 0.004 * variant) * rng.lognormvariate(0, spread)

    return draw


@pytest.mark.parametrize("seed", range(12))
def test_comparisons_are_those_of_scipy(seed):
    rng, slow_start = random.Random(seed), seed % 3 * 3
    rounds = LOOKS[4 + seed % 6]
    trial, times = run(spoiled(rng, 0.02 * (1 + seed % 5), slow_start), rounds=rounds)
    logs = [[math.log(ns) for ns in one] for one in times]
    first = max(map(warm_up, logs))
    ratios = [b - a for a, b in zip(*logs, strict=True)][first:]
    told = trial.compare(0, 1)
    interval = stats.quantile_test(ratios, q=0, p=0.5).confidence_interval(LEVEL)
    assert slow_start <= first and told["rounds"] == len(ratios)
    assert near(told["ratio"], math.exp(statistics.median(ratios)))
    assert near(told["low"], math.exp(interval.low))
    assert near(told["high"], math.exp(interval.high))
    assert near(told["speedup"] * told["ratio"], 1)
    assert near(told["speedup_low"] * told["high"], 1)
    assert near(told["speedup_high"] * told["low"], 1)


@pytest.mark.parametrize("rounds", range(4, LEAST))
def test_few_rounds_have_the_interval_of_student(rounds):
    rng = random.Random(rounds)
    trial, times = run(spoiled(rng, 0.1, 0), rounds=rounds)
    logs = [[math.log(ns) for ns in one] for one in times]
    first = max(map(warm_up, logs))
    ratios = [b - a for a, b in zip(*logs, strict=True)][first:]
    told = trial.compare(0, 1)
    assert near(told["ratio"], math.exp(statistics.fmean(ratios)))
    if len(ratios) < 4:
        assert told["low"] is None and told["verdict"] == "cannot_tell"
        return
    spread = stats.sem(ratios)
    low, high = stats.t.interval(0.9995, len(ratios) - 1, statistics.fmean(ratios), spread)
    assert near(told["low"], math.exp(low)) and near(told["high"], math.exp(high))


@pytest.mark.parametrize("seed", range(6))
def test_summaries_are_those_of_scipy(seed):
    rng = random.Random(seed)
    trial, times = run(spoiled(rng, 0.1, 4), rounds=72)
    for variant, one in enumerate(times):
        logs = [math.log(ns) for ns in one]
        first = warm_up(logs)
        logs, kept = logs[first:], one[first:]
        told = trial.summary(variant)
        interval = stats.quantile_test(logs, q=0, p=0.5).confidence_interval(LEVEL)
        far = 5 * 1.4826 * stats.median_abs_deviation(logs)
        middle = statistics.median(logs)
        third = len(logs) // 3
        drift = statistics.median(logs[-third:]) - statistics.median(logs[:third])
        assert (told["warm_up"], told["rounds"]) == (first, len(kept))
        assert told["outliers"] == sum(abs(x - middle) > far for x in logs)
        assert near(told["median_ns"], math.exp(middle))
        assert near(told["low_ns"], math.exp(interval.low))
        assert near(told["high_ns"], math.exp(interval.high))
        assert near(told["mean_ns"], statistics.fmean(kept))
        assert near(told["std_ns"], statistics.stdev(kept))
        assert near(told["drift_percent"] / 100, math.expm1(drift))


def test_few_times_of_one_variant_have_an_interval_too():
    rng = random.Random(4)
    trial, times = run(lambda v: 1e6 * (1 + 0.01 * v) * rng.uniform(0.9, 1.1), rounds=5)
    logs = [math.log(ns) for ns in times[1]]
    low, high = stats.t.interval(0.9995, 4, statistics.fmean(logs), stats.sem(logs) or 1e-300)
    told = trial.summary(1)
    assert math.isclose(told["low_ns"], math.exp(low), rel_tol=1e-6)
    assert math.isclose(told["high_ns"], math.exp(high), rel_tol=1e-6)
    assert told["low_ns"] <= told["median_ns"] <= told["high_ns"]


def verdicts(ratio, spread, trials=100, **options):
    """How often each verdict is given when variant 1 takes `ratio` times as long."""
    rng, counts = random.Random(7), {}
    for _ in range(trials):
        trial, _ = run(
            lambda v: 1e7 * (ratio if v else 1) * rng.lognormvariate(0, spread), **options
        )
        verdict = trial.compare(0, 1)["verdict"]
        counts[verdict] = counts.get(verdict, 0) + 1
    return counts


def test_what_is_alike_is_no_difference():
    for spread in (0.005, 0.02, 0.05):
        assert verdicts(1, spread)["no_difference"] >= 95
    assert verdicts(1.005, 0.01)["no_difference"] >= 95


def test_noise_is_never_taken_for_a_gain():
    for spread in (0.1, 0.3):
        counts = verdicts(1, spread, rounds=108)
        assert counts.get("faster", 0) + counts.get("slower", 0) <= 5


def test_few_rounds_are_enough_for_what_is_clear():
    rng = random.Random(2)
    rounds = []
    for _ in range(100):
        trial, times = run(lambda v: 1e9 * (0.3 if v else 1) * rng.lognormvariate(0, 0.05))
        assert trial.compare(0, 1)["verdict"] == "faster"
        rounds.append(len(times[0]))
    assert rounds.count(4) >= 70 and max(rounds) <= 14
    counts = verdicts(1, 0.3, trials=1000, rounds=6)
    assert counts.get("faster", 0) + counts.get("slower", 0) <= 5


def test_what_differs_is_told():
    assert verdicts(0.9, 0.05)["faster"] == 100
    assert verdicts(1.05, 0.03)["slower"] == 100


def test_load_that_all_of_a_round_shares_does_no_harm():
    rng, load = random.Random(3), itertools.count()
    trial, _ = run(
        lambda v: 1e7 * (0.9 if v else 1) * (1 + 4 * (next(load) // 20 % 2)) * rng.gauss(1, 0.01)
    )
    told = trial.compare(0, 1)
    assert told["verdict"] == "faster" and told["low"] < 0.9 < told["high"]


def test_a_race_times_losers_no_more():
    rng, speed, count = random.Random(5), [1, 0.8, 0.79, 1.5, 0.5], [0] * 5
    trial = Trial(5, race=True)
    for variant in trial:
        count[variant] += 1
        trial.add(variant, int(1e7 * speed[variant] * rng.lognormvariate(0, 0.05)))
    assert trial.fastest() == 4 and count[3] <= 6 and max(count) <= 21


def test_rounds_hold_each_variant_once_in_changing_order():
    trial, orders, rng = Trial(3, rounds=9), [], random.Random(1)
    for index, variant in enumerate(trial):
        orders += [[]] if index % 3 == 0 else []
        orders[-1].append(variant)
        trial.add(variant, int(1000 * rng.lognormvariate(0, 0.3)))
    assert len(orders) == 9 and all(sorted(order) == [0, 1, 2] for order in orders)
    assert all(orders[i + 1] == orders[i][::-1] for i in range(0, 8, 2))
    assert len({order[0] for order in orders}) == 3


def test_what_is_dropped_is_timed_no_more():
    trial, seen = Trial(3, rounds=20, tolerance=1e-9), []
    for variant in trial:
        seen.append(variant)
        if variant == 1:
            trial.drop(1)
        else:
            trial.add(variant, 1000 + 10 * (len(seen) % 3))
    assert seen.count(1) == 1 and seen.count(0) == seen.count(2) >= 9
    assert trial.compare(0, 1)["verdict"] == "cannot_tell"
    trial = Trial(2)
    for variant in trial:
        trial.drop(variant)
    assert list(trial) == []


def test_bounds_hold():
    trial, times = run(lambda v: 1000 + 100 * v, rounds=3)
    assert len(times[0]) == 3 and trial.compare(0, 1)["verdict"] == "cannot_tell"
    assert trial.compare(0, 1)["low"] is None and near(trial.compare(0, 1)["ratio"], 1.1)
    trial, times = run(lambda v: 1000, seconds=1e-9)
    assert len(times[0]) == 1
    empty = Trial(2)
    assert empty.summary(0)["median_ns"] is None and empty.compare(0, 1)["rounds"] == 0


def test_misuse_is_refused():
    for options in ({"seconds": -1}, {"rounds": 820}, {"tolerance": 1}, {"tolerance": -0.1}):
        with pytest.raises(ValueError):
            Trial(2, **options)
    for variants in (0, -1, 65):
        with pytest.raises(ValueError):
            Trial(variants)
    trial = Trial(2)
    with pytest.raises(ValueError):
        trial.add(0, 5)
    turn = next(trial)
    with pytest.raises(ValueError):
        trial.add(1 - turn, 5)
    with pytest.raises(IndexError):
        trial.drop(2)
    with pytest.raises(IndexError):
        trial.summary(-1)
    trial.add(turn, -5)
    assert trial.summary(turn)["median_ns"] == 1


def test_one_alone_is_timed_as_often_as_asked():
    trial = Trial(1, rounds=9)
    for variant in trial:
        trial.add(variant, 1000)
    told = trial.summary(0)
    assert told["rounds"] + told["warm_up"] == 9


def test_a_race_goes_on_until_the_fastest_is_told():
    """The baseline is told at once, the others hardly differ; and the baseline stays."""
    rng, counts = random.Random(5), [0, 0, 0]
    trial = Trial(3, race=True, rounds=48)
    for variant in trial:
        counts[variant] += 1
        trial.add(variant, int(1e6 * (5, 1.01, 1)[variant] * rng.lognormvariate(0, 0.05)))
    assert counts == [48, 48, 48]


def test_a_race_whose_baseline_failed_ends_when_the_others_are_told():
    rng, trial, turns = random.Random(1), Trial(3, race=True), 0
    for variant in trial:
        turns += 1
        if variant == 0:
            trial.drop(0)
        else:
            trial.add(variant, int(1e6 * variant * rng.lognormvariate(0, 0.01)))
    assert turns < 40


def test_a_trial_goes_on_until_its_ratio_is_as_precise_as_asked():
    """A difference that is clear at once is told at once; how large it is takes longer."""
    lengths = []
    for precision in (0, 0.1, 0.03):
        rng, trial = random.Random(3), Trial(2, precision=precision)
        for variant in trial:
            trial.add(variant, int(1e6 * (2 - variant) * rng.lognormvariate(0, 0.1)))
        told = trial.compare(0, 1)
        assert told["verdict"] == "faster"
        assert precision == 0 or told["high"] / told["low"] <= (1 + precision) ** 2
        lengths.append(told["rounds"])
    assert lengths[0] < lengths[1] < lengths[2]
    with pytest.raises(ValueError, match="precision"):
        Trial(2, precision=1)
