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
    tuned_settings.TunedSettings(torch, names, lambda *words: refused.append(words)).install()

    class Endless(IterableDataset):
        def __iter__(self):
            return iter(range(8))

    torch.set_num_threads(2)  # the script's own, which the setting overrides once it runs
    loader = DataLoader(list(range(8)), 4, False, None, None, 0)
    endless = DataLoader(Endless(), 4)
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
    assert got["endless"] == 0 and got["refused"] == ["workers"]
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


# ---------------------------------------------------------------- the loss scale


class Scaled:
    """A model of one weight whose loss is the weight times a factor."""

    def __init__(self):
        from kinetoscope.torch.tuned_scaler import LossScaler

        self.weight = torch.nn.Parameter(torch.tensor([2.0]))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.5)
        self.scaler = LossScaler(torch, lambda *words: pytest.fail(str(words)))
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
