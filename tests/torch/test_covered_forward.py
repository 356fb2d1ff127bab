"""Goal: a forward that an instance has of its own is called in each setting, and put back; copies
call their own model. Method: models whose forward was replaced in the ways in which programs do."""

import functools
import inspect
import pickle
import types

import pytest

torch = pytest.importorskip("torch")

from tuned_models import batch, mlp  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]


def by_closure(model):
    plain = model.forward
    return lambda x: plain(x) * 3


def by_default(model):
    def forward(x, plain=model.forward):
        return plain(x) * 3

    return forward


def by_method(model):
    kind = type(model)
    return types.MethodType(lambda self, x: kind.forward(self, x) * 3, model)


def by_method_of_a_closure(model):
    plain = model.forward
    return types.MethodType(lambda self, x: plain(x) * 3, model)


def by_partial(model):
    def around(plain, x):
        return plain(x) * 3

    return functools.partial(around, model.forward)


def by_two(model):
    plain = model.forward

    def first(x):
        return plain(x)

    return lambda x: first(x) * 3


WAYS = [by_closure, by_default, by_method, by_method_of_a_closure, by_partial, by_two]


@pytest.fixture(params=WAYS)
def model(request):
    made = mlp(layers=2)
    made.forward = request.param(made)
    return made


def test_a_copy_calls_itself(ks, model):
    from kinetoscope.tune.model_copy import copied

    x, _ = batch()
    twin = copied(model)
    assert torch.equal(twin(x), model(x))
    twin(x).sum().backward()
    assert all(p.grad is None for p in model.parameters())
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert not twin(x).any() and model(x).any()


def test_a_forward_of_its_own_is_called_and_put_back(ks, model):
    from kinetoscope.tune import applied, checkpointing
    from kinetoscope.tune.covered_method import uncover
    from kinetoscope.tune.setting import Setting

    x, _ = batch()
    want, own = model(x).detach(), vars(model)["forward"]
    made = applied.apply(model, Setting(precision="bfloat16"), "cpu")
    got = made(x)
    assert made is model and got.dtype == torch.float32 and not torch.equal(got, want)
    assert torch.allclose(got, want, rtol=0.05, atol=0.05)
    uncover(model, "forward")
    assert vars(model)["forward"] is own
    checkpointing.put_on(model, ("",))
    assert torch.equal(model(x), want)
    checkpointing.take_off(model, ("",))
    assert vars(model)["forward"] is own


def test_a_copy_of_a_covered_model_calls_itself(ks, model):
    from kinetoscope.tune import checkpointing
    from kinetoscope.tune.model_copy import copied

    x, _ = batch()
    checkpointing.put_on(model, ("",))
    twin = copied(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert not twin(x).any() and model(x).any()


def test_a_block_with_a_forward_of_its_own_is_checkpointed(ks):
    model = mlp(layers=2)
    model[0].forward = by_closure(model[0])
    own = model[0].forward
    x, y = batch()
    result = ks.sweep_checkpointing(model, x, ["0", "1"], target=y, seconds=0.2)
    assert [row["reason"] for row in result] == [None] * 4 and model[0].forward is own
    assert all(row["error"] < 1e-6 for row in result)


def test_what_cannot_be_copied_along_is_refused(ks):
    from kinetoscope.tune.model_copy import CannotCopy, copied

    model = mlp(layers=1)
    names = {"plain": model.forward}
    exec("def forward(x):\n    return plain(x) * 3", names)
    model.forward = names["forward"]
    with pytest.raises(CannotCopy, match="by the global variable plain"):
        copied(model)


def test_covers_lie_over_each_other(ks):
    from kinetoscope.tune.covered_method import cover, uncover

    class Adder:
        def add(self, number, step=1):
            return number + step

    adder = Adder()
    cover(adder, "add", lambda owner, add, *args, **words: 10 * add(*args, **words))
    cover(adder, "add", lambda owner, add, *args, **words: 7 + add(*args, **words))
    assert adder.add(1, step=2) == 37
    assert list(inspect.signature(adder.add).parameters) == ["number", "step"]
    uncover(adder, "add")
    assert adder.add(1) == 20
    uncover(adder, "add")
    assert adder.add(1) == 2 and vars(adder) == {}
    uncover(adder, "add")  # there is none
    assert adder.add(1) == 2


def test_arguments_of_a_model_stay_known_and_pickles_are_plain(ks):
    from kinetoscope.tune import applied
    from kinetoscope.tune.setting import Setting

    model, (x, _) = mlp(layers=2), batch()
    want, signature = model(x), inspect.signature(model.forward)
    setting = Setting(precision="bfloat16", checkpointed=("0",))
    made = applied.apply(model, setting, "cpu")
    assert inspect.signature(made.forward) == signature
    assert torch.equal(pickle.loads(pickle.dumps(made))(x), want)


def test_outputs_that_the_model_keeps_are_not_changed(ks):
    from kinetoscope.tune import applied
    from kinetoscope.tune.setting import Setting

    class Keeping(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)
            self.kept = {}

        def forward(self, x):
            self.kept["y"] = self.inner(x)
            return self.kept

    model = applied.apply(Keeping(), Setting(precision="bfloat16"), "cpu")
    assert model(torch.ones(1, 4))["y"].dtype == torch.float32
    assert model.kept["y"].dtype == torch.bfloat16
