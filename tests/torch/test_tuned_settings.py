"""Goal: each setting of `kscope tune` has its effect, and no other. Method: a process of its own
for what changes torch itself, as that cannot be taken back; the loss scale is played here."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
    import json
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, IterableDataset
    from kinetoscope.torch import tuned_settings

    refused = []
    names = tuned_settings.settings_of_environment()
    tuned = tuned_settings.TunedSettings(torch, names, lambda *words: refused.append(words))
    tuned.install()

    class Endless(IterableDataset):
        def __iter__(self):
            return iter(range(8))

    torch.set_num_threads(2)  # the script's own, which the setting overrides once it runs
    loader = DataLoader(list(range(8)), 4, False, None, None, 0)
    endless = DataLoader(Endless(), 4)
    tuned.loaders.refuse_untaken()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 2))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    images = torch.randn(2, 3, 8, 8)
    first = model(images)
    layout = model[0].weight.is_contiguous(memory_format=torch.channels_last)
    compiled = torch.compile(lambda x: x, backend="eager")
    with torch.no_grad():
        second, third = model(images), model(images)
    print(json.dumps({
        "workers": [loader.num_workers, loader.prefetch_factor, loader.persistent_workers],
        "endless": endless.num_workers,
        "refused": [name for name, _ in refused],
        "fused": [optimizer.defaults["fused"], optimizer.defaults["foreach"]],
        "threads": torch.get_num_threads(),
        "layout": layout,
        "is_float": third.dtype is torch.float32,
        "is_rounded": not torch.equal(first, third),
        "is_close": torch.allclose(first, third, atol=0.05),
        "keys": sorted(model.state_dict()),
    }))
"""


def outcome(tuned):
    env = {**os.environ, "KSCOPE_TUNED": tuned, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_settings_take_effect():
    got = outcome(
        "workers=2,prefetch=4,persistent=1,optimizer=fused,threads=1,layout=channels_last,"
        "precision=bf16"
    )
    assert got["workers"] == [2, 4, True]
    assert got["endless"] == 0 and got["refused"] == []
    assert got["fused"] == [True, None]
    assert got["threads"] == 1
    assert got["layout"]
    assert got["is_float"] and got["is_rounded"] and got["is_close"]
    assert got["keys"] == ["0.bias", "0.weight", "2.bias", "2.weight"]


def test_without_settings_nothing_changes():
    got = outcome("")
    assert got["workers"] == [0, None, False] and got["refused"] == []
    assert got["fused"] == [None, True]
    assert got["threads"] == 2
    assert not got["layout"] and not got["is_rounded"]


def said(tuned, script):
    """What a script prints, as JSON, that runs as under `kscope run --tuned`."""
    start = "import copy, io, json, pickle, torch\nfrom torch import nn\n"
    start += "from kinetoscope.torch.tuned_settings import apply_settings\napply_settings(torch)\n"
    env = {**os.environ, "KSCOPE_TUNED": tuned, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-c", start + textwrap.dedent(script)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("tuned", ["precision=bf16", "layout=channels_last"])
def test_copies_are_models_of_their_own(tuned):
    script = """
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 2))
        images = torch.randn(2, 3, 8, 8)
        model(images), model(images)
        twin = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.zero_()
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        print(json.dumps([twin(images).abs().sum().item(), model(images).abs().sum().item(),
                          torch.allclose(loaded(images), model(images), atol=0.05),
                          "forward" in vars(model), list(vars(model)) == list(vars(twin))]))
    """
    (of_twin, of_model, is_same, has_own, is_alike), _ = said(tuned, script)
    assert of_twin == 0 and of_model > 0 and is_same and not has_own and is_alike


def test_modules_of_one_class_are_changed_where_they_are_outermost_alone():
    script = """
        inner = nn.Sequential(nn.Linear(4, 4))
        model = nn.Sequential(inner, nn.Linear(4, 2))
        x, types = torch.randn(3, 4), []
        inner.register_forward_hook(lambda *a: types.append(str(a[2].dtype)))
        model(x)
        types.clear()
        outer, inside = model(x), list(types)
        print(json.dumps([inside, str(outer.dtype), str(nn.Sequential(inner)(x).dtype)]))
    """
    (types, outer, other), _ = said("precision=bf16", script)
    assert types == ["torch.bfloat16"] and outer == other == "torch.float32"


def test_forward_of_the_script_s_own_is_left_alone():
    script = """
        model = nn.Linear(4, 2)
        own = model.forward
        model.forward = lambda x: own(x) + 1
        x = torch.randn(3, 4)
        first = model(x)
        model(x)
        print(json.dumps([torch.equal(first, model(x))]))
    """
    (is_same,), told = said("precision=bf16", script)
    assert is_same and "precision is not applied: the script has a forward of its own" in told


STEPS = """
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, found = torch.randn(8, 4), []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).square().mean() / 8
        loss.backward()
        found += [loss.item(), model.weight.grad.abs().max().item()]
        optimizer.step()
    print(json.dumps(found))
"""


def test_half_precision_scales_the_loss_and_no_gradient_shows_it():
    plain, _ = said("", STEPS)
    tuned, _ = said("precision=fp16", STEPS)
    assert tuned == pytest.approx(plain, rel=0.01) and tuned != plain


def test_small_gradients_live_in_half_precision():
    script = """
        class Small(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Linear(1, 1, bias=False)
            def forward(self, x):
                return self.w(x) * 1e-6
        model = Small()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        x = torch.ones(1, 1)
        with torch.no_grad():
            model(x), model(x)
        (model(x).sum() * 1e-2).backward()
        print(json.dumps(model.w.weight.grad.item()))
    """
    gradient, _ = said("precision=fp16", script)
    assert gradient == pytest.approx(1e-8, rel=0.01)


def test_complex_parameters_are_not_fused():
    script = """
        weights = [nn.Parameter(torch.randn(2, dtype=torch.complex64))]
        plain = [nn.Parameter(torch.randn(2))]
        made = [torch.optim.Adam(iter(p)) for p in (weights, plain)]
        made.append(torch.optim.Adam([{"params": iter(plain)}]))
        weights[0].abs().sum().backward()
        made[0].step()
        print(json.dumps([[o.defaults["fused"], len(o.param_groups[0]["params"])] for o in made]))
    """
    got, told = said("optimizer=fused", script)
    assert got == [[None, 1], [True, 1], [True, 1]] and "complex" in told


def test_setting_that_no_loader_can_have_is_told():
    script = """
        from torch.utils.data import DataLoader, IterableDataset
        class Endless(IterableDataset):
            def __iter__(self):
                return iter(range(8))
        print(json.dumps(DataLoader(Endless(), 4).num_workers))
    """
    workers, told = said("workers=2", script)
    assert workers == 0 and "workers is not applied: an IterableDataset" in told


class Session:
    """What `TunedSession.epoch_ended` takes of a session."""

    _is_off, _step_count = False, 7

    def __init__(self, loaders):
        self._epochs = []
        self.settings = type("Settings", (), {"loaders": loaders})


def test_epochs_are_those_of_the_loader_that_feeds_the_steps(ks):
    from kinetoscope.torch.tuned_loader import LoaderTuner
    from kinetoscope.torch.tuned_session import TunedSession

    session = Session(LoaderTuner(torch, {}, None))
    for key in ("train", "train", "validation", "train"):
        session.settings.loaders.asked(key)
    TunedSession.epoch_ended(session, "validation")
    assert session._epochs == []
    TunedSession.epoch_ended(session, "train")
    assert session._epochs == [7]


def test_norms_of_steps_that_a_loss_scale_leaves_out_are_told_as_such(ks):
    from kinetoscope.torch.tuned_numbers import RunNumbers

    numbers = RunNumbers(torch)
    numbers._keep("norm", torch.tensor(float("inf")))
    assert numbers.drain() == [("norm", "inf")]
    numbers._has_scale = True
    numbers._keep("norm", torch.tensor(float("nan")))
    numbers._keep("loss", torch.tensor(float("nan")))
    assert numbers.drain() == [("loss", "nan"), ("norm", "-inf")]


# ---------------------------------------------------------------- the loss scale


class Scaled:
    """A model of one weight whose loss is the weight times a factor."""

    def __init__(self):
        from kinetoscope.torch.tuned_scaler import LossScaler

        self.weight = torch.nn.Parameter(torch.tensor([2.0]))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.5)
        self.scaler = LossScaler(torch)
        self.scaler._has_hook = True  # the hook is global, and called by hand here
        self.scaler.watch(self.optimizer)

    def backward(self, factor):
        loss = (self.weight * factor).sum()
        self.scaler.backward(loss, lambda x: x.backward())

    def step(self):
        self.scaler.before_step(self.optimizer)
        self.optimizer.step()


def test_gradients_are_as_without_a_scale(ks):
    scaled = Scaled()
    scaled.backward(3.0)
    assert scaled.weight.grad.item() == 3.0
    scaled.backward(0.25)  # accumulated
    assert scaled.weight.grad.item() == 3.25
    scaled.step()
    assert scaled.weight.item() == 2.0 - 0.5 * 3.25


def test_step_with_an_overflow_is_left_out(ks):
    from kinetoscope.torch.tuned_scaler import SCALE_FIRST

    scaled = Scaled()
    scaled.backward(float("inf"))
    scaled.step()
    assert scaled.weight.item() == 2.0
    assert scaled.scaler.skipped_steps == 1
    scaled.optimizer.zero_grad()
    scaled.backward(1.0)
    assert scaled.scaler._scale == SCALE_FIRST / 2
    scaled.step()
    assert scaled.weight.item() == 1.5


# ---------------------------------------------------------------- choices of a script's own


def test_entry_gives_the_first_choice_or_the_tuned_one(ks, monkeypatch):
    from kinetoscope.tune.entry import entry, knobs

    monkeypatch.delenv("KSCOPE_TUNED", raising=False)
    assert entry("workers", 0, 2, 4) == 0
    monkeypatch.setenv("KSCOPE_TUNED", "compile=default,entry.workers=2")
    assert entry("workers", 0, 2, 4) == 4
    assert entry("kernel", "plain", "blocked", exact=False) == "plain"
    assert knobs()["kernel"] == (("plain", "blocked"), False)
    monkeypatch.setenv("KSCOPE_TUNED", "entry.workers=7")
    assert entry("workers", 0, 2, 4) == 0
    for name, choices in (("two words", (1,)), ("", (1,)), ("empty", ())):
        with pytest.raises(ValueError, match="entry"):
            entry(name, *choices)
