"""Goal: hooks give the true forward and backward time of each module and change nothing. Method:
modules that sleep for known times, also where they share an input; runs without hooks."""

import copy
import gc
import time
import weakref

import pytest
from naps import Naps

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Nap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, naps, name, seconds):
        ctx.rest = naps, name, seconds
        naps.take(name + " forward", seconds[0])
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        naps, name, seconds = ctx.rest
        naps.take(name + " backward", seconds[1])
        return grad.clone(), None, None, None


class Sleepy(torch.nn.Module):
    def __init__(self, naps, name, forward_s, backward_s):
        super().__init__()
        self.rest = naps, name, (forward_s, backward_s)

    def forward(self, x):
        return Nap.apply(x, *self.rest)


class Attention(torch.nn.Module):
    """Three modules with one input, and a way around them."""

    def __init__(self, naps):
        super().__init__()
        self.q = Sleepy(naps, "q", 0.01, 0.02)
        self.k = Sleepy(naps, "k", 0.02, 0.03)
        self.v = Sleepy(naps, "v", 0.03, 0.04)

    def forward(self, x):
        return x + self.q(x) * self.k(x) + self.v(x)


def test_modules_that_share_an_input_have_their_own_times(ks, naps):
    """Each holds its own rests. The three do not overlap, so together they fit into the whole, as
    they would not if one held the rests of another."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Attention(naps), torch.nn.Linear(4, 1))
    walls = {"forward": 0.0, "backward": 0.0}
    with ks.TorchProfilingHooks() as hooks:
        hooks.register_model_hooks(model)
        for _ in range(2):
            began = time.perf_counter()
            loss = model(torch.randn(3, 4)).sum()
            between = time.perf_counter()
            loss.backward()
            walls["forward"] += between - began
            walls["backward"] += time.perf_counter() - between
    times = hooks.get_times()
    for way, wall in walls.items():
        own = {name: times[f"1.{name}"][way] for name in "qkv"}
        for name, got in own.items():
            assert got["count"] == 2 and got["total"] >= naps.total(f"{name} {way}"), (name, way)
        inner = sum(got["total"] for got in own.values())
        assert inner <= times["1"][way]["total"] <= times["Sequential"][way]["total"] <= wall
        others = times["0"][way]["total"] + times["2"][way]["total"]
        assert times["1"][way]["total"] + others <= wall  # one after the other


def test_regions_lie_inside_each_other(ks, naps, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Attention(naps))
    hooks = ks.TorchProfilingHooks().register_model_hooks(model)
    with ks.profile(tmp_path):
        model(torch.randn(3, 4)).sum().backward()
    hooks.cleanup()
    regions = {row["name"]: row for row in ks.open(tmp_path).regions}
    for way in ("forward", "backward"):
        inner, outer, whole = (
            regions[f"{way}_{name}"] for name in ("Sleepy", "Attention", "Sequential")
        )
        assert inner["calls"] == 3 and inner["category"] == f"{way}_pass"
        assert inner["total_ns"] / 1e9 >= sum(naps.total(f"{name} {way}") for name in "qkv")
        assert outer["self_ns"] == outer["total_ns"] - inner["total_ns"]
        linear = regions[f"{way}_Linear"]
        assert whole["self_ns"] == whole["total_ns"] - outer["total_ns"] - linear["total_ns"]


def train(model, steps=4):
    torch.manual_seed(7)
    adam = torch.optim.Adam(model.parameters())
    losses = []
    for _ in range(steps):
        adam.zero_grad()
        x = torch.randn(8, 6)
        loss = model(x).square().mean()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses, [p.grad.clone() for p in model.parameters()]


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.GELU(), torch.nn.Flatten())
        self.out = torch.nn.Linear(6, 6)

    def forward(self, x):
        y = self.inner(x)
        y += x  # in place on what a module gave
        return self.out(y[:, :6])


def test_training_is_the_same_bit_for_bit(ks):
    torch.manual_seed(1)
    bare = Residual()
    watched = copy.deepcopy(bare)
    hooks = ks.TorchProfilingHooks().register_model_hooks(watched)
    (losses, grads), (their_losses, their_grads) = train(watched), train(bare)
    assert losses == their_losses
    assert all(torch.equal(a, b) for a, b in zip(grads, their_grads, strict=True))
    assert hooks.get_times()["inner.0"]["backward"]["count"] == 4
    hooks.cleanup()
    tables = [t for m in watched.modules() for k, t in vars(m).items() if k.endswith("_hooks")]
    assert not any(tables) and hooks.hooks == []


class Holder(torch.nn.Module):
    """Its graph holds an object, for as long as the graph is there."""

    class Hold(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, thing):
            ctx.thing = thing
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad.clone(), None

    def forward(self, x):
        thing = Naps()
        self.held = weakref.ref(thing)
        return self.Hold.apply(x, thing)


def test_graphs_go_as_without_hooks(ks):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Holder())
    hooks = ks.TorchProfilingHooks().register_model_hooks(model)
    out = model(torch.randn(2, 4))
    assert model[1].held() is not None
    out.sum().backward()
    del out
    gc.collect()
    assert model[1].held() is None
    late = model(torch.randn(2, 4)).sum()
    hooks.cleanup()
    late.backward()  # what is left in its graph does nothing
    assert hooks.get_times()["Sequential"]["backward"]["count"] == 1


def test_what_has_no_backward(ks):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Identity())
    with ks.TorchProfilingHooks().register_model_hooks(model) as hooks:
        with torch.no_grad():
            model(torch.randn(2, 4))
        with torch.inference_mode():
            model(torch.randn(2, 4))
        model(torch.randn(2, 4)).sum().backward()
        with pytest.raises(RuntimeError):
            model(torch.randn(2, 5))  # a forward that raises
        model(torch.randn(2, 4)).sum().backward()
    times = hooks.get_times()
    assert times["Sequential"]["forward"]["count"] == 5
    assert times["0"]["backward"]["count"] == 2 and times["1"]["backward"]["count"] == 0


def test_a_graph_that_is_kept_runs_twice(ks, naps):
    module = Sleepy(naps, "a", 0.0, 0.02)
    hooks = ks.TorchProfilingHooks()
    hooks.register_backward_hook(module, "again")
    loss = module(torch.ones(2, requires_grad=True) * 1).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    got = hooks.get_times()["again"]["backward"]
    assert got["count"] == 2 and got["total"] >= naps.total("a backward")


@pytest.mark.parametrize("order", ["hooks first", "compile first"])
def test_compiled_modules_compile_as_without_hooks(ks, order):
    """One graph, no break, the same numbers; the compiled module itself can be timed."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(len(graph.graph.nodes))
        return graph.forward

    def compiled(with_hooks):
        torch._dynamo.reset()
        torch.manual_seed(3)
        model = Residual()
        hooks = ks.TorchProfilingHooks()
        if with_hooks and order == "hooks first":
            hooks.register_model_hooks(model)
        module = torch.compile(model, backend=backend, fullgraph=True)
        if with_hooks and order == "compile first":
            hooks.register_model_hooks(model)
        outer = ks.TorchProfilingHooks()
        outer.register_forward_hook(module, "compiled")
        results = train(module)
        return results, outer

    (losses, grads), _ = compiled(False)
    bare, graphs[:] = list(graphs), []
    (hooked_losses, hooked_grads), outer = compiled(True)
    assert graphs == bare and hooked_losses == losses
    assert all(torch.equal(a, b) for a, b in zip(grads, hooked_grads, strict=True))
    assert outer.get_times()["compiled"]["forward"]["count"] == 4


def test_arguments(ks, make):
    hooks = ks.TorchProfilingHooks()
    for register in (hooks.register_forward_hook, hooks.register_backward_hook):
        with pytest.raises(TypeError, match="torch.nn.Module"):
            register("no module")
    with pytest.raises(TypeError):
        hooks.register_model_hooks(5)
    off = ks.TorchProfilingHooks(make(profile_model_forward=False))
    assert off.register_forward_hook(torch.nn.Linear(2, 2)) is None and off.hooks == []
