"""Goal: results are called the same only where they are, NaN and infinite ones included. Method:
tensors and losses by hand, and models that give them."""

import math

import pytest

torch = pytest.importorskip("torch")

from tuned_models import batch, mlp  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]

NAN, INF = math.nan, math.inf


@pytest.fixture
def agreement(ks):
    from kinetoscope.tune import agreement

    return agreement


def told(agreement, right, found, where="outputs"):
    def outcome(values):
        tensors = {"outputs": [("0", torch.ones(2))]}
        tensors[where] = [("w", torch.tensor(values))]
        return agreement.Outcome(**tensors)

    return agreement.compare_outcomes(
        outcome(right), outcome(found), agreement.tolerance_of("tf32")
    )


@pytest.mark.parametrize("where", ["outputs", "gradients", "buffers"])
@pytest.mark.parametrize(
    ("right", "found", "reason"),
    [
        ([1.0, 2.0], [1.0, 2.0], None),
        ([1.0, 2.0], [1.0, 3.0], "off by"),
        ([1.0, 2.0], [1.0, NAN], "overflows"),
        ([1.0, NAN], [1.0, 2.0], "other values in 1 places that are not finite"),
        ([1.0, NAN], [1.0, INF], "other values"),
        ([1.0, INF], [1.0, -INF], "other values"),
        ([1.0, INF], [1.0, NAN], "other values"),
        ([1.0, NAN], [1.0, NAN], None),
        ([1.0, -INF], [1.0, -INF], None),
        ([INF, -INF], [INF, -INF], None),
        ([1.0, NAN], [2.0, NAN], "off by"),
        ([NAN, NAN], [NAN, NAN], "cannot be compared"),
        ([NAN, INF], [NAN, INF], "cannot be compared"),
    ],
)
def test_what_is_not_finite_is_so_in_both(agreement, where, right, found, reason):
    got = told(agreement, right, found, where)
    assert got.reason is None if reason is None else reason in got.reason
    assert got.is_unknown == (reason == "cannot be compared")


@pytest.mark.parametrize(
    ("right", "found", "step"),
    [
        ([1.0, 0.9], [1.0, 0.9], None),
        ([1.0, 0.9], [1.0, 0.8], 2),
        ([1.0, 0.9], [1.0, 1.0], 2),  # farther up, too
        ([1.0, 0.9], [1.0, NAN], 2),
        ([1.0, 0.9], [INF, 0.9], 1),
        ([1.0, NAN, 1.0], [1.0, NAN, 7.0], None),
        ([1.0, NAN], [1.0, 2.0], 2),
        ([1.0, INF], [1.0, NAN], 2),
        ([1.0, INF], [1.0, INF], None),
        ([1.0, NAN], [5.0, NAN], 1),
        ([-1.0, -0.9], [-1.0, -0.9], None),
        ([-1.0, -0.9], [-1.0, -0.8], 2),
    ],
)
def test_losses_are_compared_step_by_step(agreement, right, found, step):
    reason = agreement.compare_losses(right, found, agreement.tolerance_of("float32"))
    assert reason is None if step is None else f"loss of step {step} is" in reason


def test_losses_may_differ_by_twice_of_what_seeds_change(agreement):
    line = agreement.tolerance_of("float32")
    assert agreement.compare_losses([1.0], [1.15], line, spread=0.1) is None
    assert agreement.compare_losses([1.0], [1.25], line, spread=0.1) is not None


class Poisoned(torch.nn.Module):
    """One parameter has a gradient that is NaN, and outputs are good: a square root of zero."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 4)
        self.scale = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.inner(x) + 0 * self.scale.square().sqrt()


def test_gradients_that_are_nan_prove_nothing(ks):
    x, y = batch()
    result = ks.sweep_threads(Poisoned(), x, [1, 2], target=y, seconds=0.2)
    assert [row["verdict"] for row in result] == ["baseline", "not_compared"]
    assert "gradient of scale" in result.rows[1]["reason"]
    assert result.best == {"threads": 1} and "has NaN in places" in result.table()


def test_training_that_turns_nan_is_compared_as_far_as_it_goes(ks, monkeypatch):
    """Its losses are NaN from the third step on; one that is wrong before is found out."""
    from kinetoscope.tune import work

    rebuilt = work.rebuilt

    class Bursting(torch.optim.SGD):
        count = 0

        def step(self, closure=None):
            self.count += 1
            if self.count == 2:
                with torch.no_grad():
                    self.param_groups[0]["params"][0].fill_(NAN)
            return super().step(closure)

    def spoiled(optimizer, source, model, kind=None):
        made = rebuilt(optimizer, source, model, kind)
        for group in made.param_groups if kind == "fused" else ():
            group["lr"] *= 1000
        return made

    monkeypatch.setattr(work, "rebuilt", spoiled)
    model, (x, y) = mlp(), batch()
    sgd = Bursting(model.parameters(), 0.1)
    result = ks.sweep_optimizer(model, x, target=y, optimizer=sgd, seconds=0.2)
    rows = {row["label"]: row for row in result}
    assert "loss of step 2" in rows["fused"]["reason"] and rows["foreach"]["reason"] is None
    assert "not finite from step 3 on" in result.table()


def test_a_model_that_is_another_each_time_proves_nothing(ks):
    """Of what is off by that much, four times as much would be fine."""

    class Growing(torch.nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x) * 2.0 ** (self.calls % 5)

    result = ks.sweep_threads(Growing(64, 4).eval(), batch()[0], [1, 2], seconds=0.2)
    assert [row["verdict"] for row in result] == ["baseline", "not_compared"]
    assert "differs from itself" in result.rows[1]["reason"]
