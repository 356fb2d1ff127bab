"""Goal: what is the same within its number format passes, what is not is named. Method: pairs of
outcomes by hand, one line each."""

import pathlib
import re
import sys

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from kinetoscope.tune import agreement  # noqa: E402
from kinetoscope.tune.agreement import Outcome, tolerance_of  # noqa: E402

pytestmark = pytest.mark.torch

ONES = torch.ones(4, 4)
NAN = float("nan")


def outcome(output=ONES, gradient=None, buffer=None):
    gradients = [] if gradient is None else [("w", gradient), ("v", torch.full((3,), 100.0))]
    buffers = [] if buffer is None else [("running_mean", buffer)]
    return Outcome([("0", output)], gradients, buffers)


def spoiled(index, value, size=ONES):
    tensor = size.clone()
    tensor.view(-1)[index] = value
    return tensor


@pytest.mark.parametrize(
    ("right", "other", "name", "reason"),
    [
        (outcome(), outcome(), "float32", None),
        (outcome(), outcome(ONES * (1 + 5e-5)), "float32", None),
        (outcome(), outcome(ONES * (1 + 2e-4)), "float32", "output 0 is off by 0.0002"),
        (outcome(), outcome(ONES * 1.02), "bfloat16", None),
        (outcome(), outcome(ONES * 1.02), "float16", "output 0 is off by 0.02"),
        (outcome(), outcome(spoiled(3, float("inf"))), "bfloat16", "output 0 overflows: 1 of 16"),
        (outcome(), outcome(spoiled(3, NAN)), "bfloat16", "output 0 overflows: 1 of 16"),
        (outcome(spoiled(3, NAN)), outcome(spoiled(3, NAN)), "float32", None),
        (outcome(), outcome(torch.ones(4)), "float32", r"output 0 has the shape \(4,\)"),
        (outcome(), Outcome([]), "float32", "output 0 is there in one"),
        (outcome(torch.arange(4)), outcome(torch.tensor([0, 1, 2, 9])), "float32", "off by 0.25"),
        (outcome(gradient=ONES), outcome(gradient=ONES * 1.01), "float32", None),
        (outcome(gradient=ONES * 50), outcome(gradient=ONES * 51), "float32", "gradient of w"),
        (outcome(gradient=ONES), outcome(gradient=ONES * 0), "bfloat16", "gradient of w"),
        (outcome(buffer=ONES), outcome(buffer=ONES * 1.2), "bfloat16", None),
        (outcome(buffer=ONES), outcome(buffer=ONES * 2), "bfloat16", "buffer running_mean"),
        (outcome(ONES[:0]), outcome(ONES[:0]), "float32", None),
        (outcome(ONES * 0), outcome(ONES * 0), "float32", None),
        (outcome(ONES * 0), outcome(ONES), "float32", "output 0 is off"),
    ],
)
def test_differences_are_named(right, other, name, reason):
    told = agreement.compare_outcomes(right, other, tolerance_of(name))
    assert told.reason is None if reason is None else told.reason is not None
    if reason is not None:
        assert re.search(reason, told.reason), told.reason


def test_formats_together_have_the_tolerance_of_the_coarsest():
    both = tolerance_of("float32", "bfloat16")
    assert both == tolerance_of("bfloat16") and tolerance_of("float64", "float32").outputs == 1e-4
    assert tolerance_of("float32", given=0.5) == agreement.Tolerance(0.5, 0.5, 0.5)


def test_rounding_of_the_model_itself_is_no_fault():
    other = outcome(ONES * (1 + 3e-4))
    limit = tolerance_of("float32")
    assert agreement.compare_outcomes(outcome(), other, limit, noise=1e-4).reason is None
    assert agreement.compare_outcomes(outcome(), other, limit, noise=5e-5).reason is not None


@pytest.mark.parametrize(
    ("other", "spread", "reason"),
    [
        ([2.0, 1.5, 1.0], 0.0, None),
        ([2.0, 1.515, 1.0], 0.0, None),
        ([2.0, 1.55, 1.0], 0.0, "loss of step 2 is 1.55 in place of 1.5"),
        ([2.0, 1.55, 1.0], 0.05, None),
        ([2.0, 1.5, NAN], 9.0, "loss of step 3 is nan"),
    ],
)
def test_losses_are_compared_step_by_step(other, spread, reason):
    told = agreement.compare_losses([2.0, 1.5, 1.0], other, tolerance_of("float32"), spread)
    assert (told is None) == (reason is None)
    assert reason is None or reason in told
