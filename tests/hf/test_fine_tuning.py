"""Goal: what a training took, and that nothing of it stays. Method: a loop of the test's own with
the same data; torch.profiler's record of memory; PEFT's own count of parameters."""

import copy
import itertools
import math
import random
import time
import types

import numpy
import pytest
from kinetoscope.hf import profile_fine_tuning, profile_peft_fine_tuning
from tiny_models import assert_untouched, peak_of_profiler, state_of, torch, transformers
from torch.utils._pytree import tree_map_only

pytestmark = pytest.mark.torch
RATE = 1e-2


def losses_of_a_plain_loop(model, loader, epochs, decay=0.01):
    """[(mean loss of training, of validation)] of each epoch"""
    model = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=decay)
    found = []
    for _ in range(epochs):
        model.train()
        train = []
        for batch in loader:
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            train.append(loss.item())
        model.eval()
        with torch.no_grad():
            judged = [model(**batch).loss.item() for batch in loader]
        found.append((sum(train) / len(train), sum(judged) / len(judged)))
    return found


@pytest.fixture
def still(classifier):
    """Without dropout, so that two trainings are the same."""
    for module in classifier.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return classifier


def test_epochs(still, labelled):
    wanted = losses_of_a_plain_loop(still, labelled, 2)
    optimizer = torch.optim.AdamW(still.parameters(), lr=RATE)
    before = state_of(still)
    got = profile_fine_tuning(still, labelled, labelled, num_epochs=2, optimizer=optimizer)
    assert_untouched(before, still)
    assert not optimizer.state
    for row, (train, judged) in zip(got["epochs"], wanted, strict=True):
        assert row["train_loss"] == pytest.approx(train, rel=1e-6)
        assert row["validation_loss"] == pytest.approx(judged, rel=1e-6)
        assert row["steps"] == row["step_time"]["count"] == len(labelled)
        assert sum(row["phases"].values()) == pytest.approx(row["step_time"]["total"], rel=1e-6)
        assert row["train_samples_per_second"] == pytest.approx(8 / row["train_time"])
        assert row["validation_samples_per_second"] == pytest.approx(8 / row["validation_time"])
    assert got["epochs"][1]["train_loss"] < got["epochs"][0]["train_loss"]


def test_data_that_can_be_gone_through_once(still, labelled):
    """Also one without an end, of which max_steps are taken."""
    optimizer = torch.optim.AdamW(still.parameters(), lr=RATE)
    wanted = losses_of_a_plain_loop(still, labelled, 2)
    options = {"num_epochs": 2, "optimizer": optimizer, "max_steps": 2}
    endless = itertools.cycle(list(labelled))
    got = profile_fine_tuning(still, endless, iter(labelled), **options)
    for row, (train, judged) in zip(got["epochs"], wanted, strict=True):
        assert row["train_loss"] == pytest.approx(train, rel=1e-6)
        assert row["validation_loss"] == pytest.approx(judged, rel=1e-6)


def test_phases(still, labelled):
    """Naps in each: 40 ms in the forward of a step, 20 in its backward, 10 in the optimizer."""
    still.register_forward_pre_hook(lambda module, args: time.sleep(0.04))
    bias = still.classifier.bias
    bias.register_hook(lambda grad: time.sleep(0.02))
    optimizer = torch.optim.SGD(still.parameters(), lr=RATE)
    optimizer.register_step_pre_hook(lambda *args: time.sleep(0.01))
    options = {"optimizer": optimizer, "num_epochs": 3}
    rows = [row["phases"] for row in profile_fine_tuning(still, labelled, **options)["epochs"]]
    least = {name: min(row[name] for row in rows) / 2 for name in rows[0]}
    assert 0.04 <= least["forward"] and 0.02 <= least["backward"] < 0.04
    assert 0.01 <= least["optimizer"] < 0.02


def test_validation_judges(classifier, labelled):
    """Without dropout, which the training has."""
    with torch.no_grad():
        wanted = [classifier(**batch).loss.item() for batch in labelled]
    for module in classifier.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.9
    still_there = torch.optim.SGD(classifier.parameters(), lr=0.0)
    got = profile_fine_tuning(classifier, labelled, labelled, optimizer=still_there)["epochs"][0]
    assert got["validation_loss"] == pytest.approx(sum(wanted) / len(wanted), rel=1e-6)
    assert got["train_loss"] != pytest.approx(got["validation_loss"], rel=1e-4)


def test_halves_have_a_scaled_loss(still, labelled, config, monkeypatch):
    """Gradients are 2^16 times as large in the backward, and unscaled in the step."""
    seen = []
    still.classifier.bias.register_hook(lambda grad: seen.append(grad.abs().max().item()))
    profile_fine_tuning(still, labelled, max_steps=1)
    plain = seen[-1]
    seen.clear()
    half = config(mixed_precision_dtype="float16")
    got = profile_fine_tuning(still, labelled, config=half, max_steps=1)
    assert got["dtype"] == "float16" and seen[0] == pytest.approx(plain * 2**16, rel=0.1)
    assert got["epochs"][0]["train_loss"] == pytest.approx(0.7, abs=0.2)


def test_tokens_of_a_training(still, labelled):
    tokens = sum(int(batch["attention_mask"].sum()) for batch in labelled)
    row = profile_fine_tuning(still, labelled)["epochs"][0]
    assert row["train_tokens_per_second"] == pytest.approx(tokens / row["train_time"])


def test_memory_of_a_step(still, labelled):
    size = sum(p.numel() * p.element_size() for p in still.parameters())
    got = profile_fine_tuning(still, labelled, max_steps=1)
    assert got["gradient_memory"] == got["parameter_bytes"] == size
    steps = 4 * len(list(still.parameters()))  # a number for each parameter
    assert got["optimizer_memory"] == 2 * size + steps

    model, batch = copy.deepcopy(still).train(), next(iter(labelled))
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()

    step()
    optimizer.zero_grad(set_to_none=True)
    assert got["peak_memory"] == pytest.approx(peak_of_profiler(step), rel=0.05)


def test_peak_on_a_gpu(monkeypatch):
    """What the optimizer makes meanwhile is held, as the weights are: 100 bytes and 24 of state
    before, 64 after, of 500 at the most."""
    from kinetoscope.hf import fine_tuning

    held = iter([24, 64])
    monkeypatch.setattr(fine_tuning, "optimizer_bytes", lambda optimizer, device: next(held))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 124)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 500)
    peak = fine_tuning.PeakOnGpu(torch.device("cuda"), object())
    assert peak.bytes() == 500 - 100 - 64
    assert fine_tuning.PeakOnGpu(torch.device("cpu"), None).bytes() is None


def test_bytes_of_an_optimizer_by_device():
    """Counters of steps stay on the CPU when weights are elsewhere."""
    from kinetoscope.hf.fine_tuning import optimizer_bytes

    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(6, device="meta"))])
    optimizer.state["planted"] = {"step": torch.zeros(()), "mean": torch.ones(6, device="meta")}
    assert optimizer_bytes(optimizer) == 4 + 24
    assert optimizer_bytes(optimizer, torch.device("meta")) == 24


def test_choices(still, labelled, config):
    before = {k: v.clone() for k, v in still.state_dict().items()}
    got = profile_fine_tuning(still.eval(), labelled, max_steps=1, keep=True)
    changed = [k for k, v in still.state_dict().items() if not torch.equal(v, before[k])]
    assert changed and not still.training and got["epochs"][0]["steps"] == 1
    assert got["epochs"][0]["validation_loss"] is None

    off = profile_fine_tuning(still, labelled, config=config(profile_fine_tuning=False))
    assert set(off.values()) == {None}
    seen = []
    still.bert.encoder.layer[0].attention.self.query.register_forward_hook(
        lambda module, args, output: seen.append(output.dtype)
    )
    half = config(mixed_precision_dtype="bfloat16")
    got = profile_fine_tuning(still, labelled, config=half, max_steps=1)
    assert got["dtype"] == "bfloat16" and set(seen) == {torch.bfloat16}


def test_pairs_and_a_loss(labelled):
    model = torch.nn.Linear(4, 3)
    loader = [(torch.ones(2, 4), torch.tensor([0, 2]))] * 3
    got = profile_fine_tuning(model, loader, loader)
    assert got["epochs"][0]["train_loss"] > 0 and got["epochs"][0]["steps"] == 3
    got = profile_fine_tuning(model, loader, loss_fn=lambda output, target: output.sum() * math.nan)
    assert math.isnan(got["epochs"][0]["train_loss"])
    with pytest.raises(ValueError, match="train_data"):
        profile_fine_tuning(model)
    with pytest.raises(ValueError, match="empty"):
        profile_fine_tuning(model, [])
    with pytest.raises(ValueError, match="no loss"):
        profile_fine_tuning(model, [torch.ones(2, 4)])


def make_trainer(model, labelled, folder, **arguments):
    settings = transformers.TrainingArguments(
        str(folder),
        num_train_epochs=2,
        per_device_train_batch_size=4,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        weight_decay=0.0,
        logging_strategy="epoch",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **{"save_strategy": "no", **arguments},
    )
    rows = labelled.dataset

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(rows)

    return InOrder(model, settings, train_dataset=rows, eval_dataset=rows)


def test_trainer(still, labelled, tmp_path):
    wanted = losses_of_a_plain_loop(still, labelled, 2, decay=0.0)
    trainer = make_trainer(still, labelled, tmp_path)
    count = len(trainer.callback_handler.callbacks)
    before = state_of(still)
    got = profile_fine_tuning(trainer)
    assert_untouched(before, still)
    assert len(trainer.callback_handler.callbacks) == count
    assert "training_step" not in vars(trainer) and trainer.optimizer is None
    for row, (train, judged) in zip(got["epochs"], wanted, strict=True):
        assert row["train_loss"] == pytest.approx(train, rel=1e-4)
        assert row["validation_loss"] == pytest.approx(judged, rel=1e-4)
        assert row["steps"] == 2 and row["step_time"]["total"] <= row["train_time"]
        assert row["train_samples_per_second"] == pytest.approx(8 / row["train_time"])
        tokens = sum(int(batch["attention_mask"].sum()) for batch in labelled)
        assert row["train_tokens_per_second"] == pytest.approx(tokens / row["train_time"])
        rate = 8 / row["validation_time"]
        assert row["validation_samples_per_second"] == pytest.approx(rate)
    assert got["dtype"] == "float32"
    assert got["gradient_memory"] == got["parameter_bytes"] and got["optimizer_memory"] > 0


def test_trainer_that_accumulates(still, labelled, tmp_path):
    """Losses of micro-batches are parts of that of a step, as the Trainer itself adds them up."""
    trainer = make_trainer(still, labelled, tmp_path, gradient_accumulation_steps=2)
    logged = []

    class Listens(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            logged.extend([logs["loss"]] if "loss" in logs else [])

    trainer.add_callback(Listens)
    rows = profile_fine_tuning(trainer)["epochs"]
    assert [row["steps"] for row in rows] == [1, 1] and len(logged) == 2
    for row, loss in zip(rows, map(float, logged), strict=True):
        assert row["train_loss"] == pytest.approx(loss, rel=1e-3)


class Counts(transformers.TrainerCallback):
    """A callback with a state of its own."""

    def __init__(self):
        self.steps, self.seen = 0, ["before"]

    def on_step_end(self, args, state, control, **kwargs):
        self.steps += 1
        self.seen.append(state.global_step)


def make_own_trainer(model, labelled, folder, schedule, **arguments):
    """A Trainer with an optimizer and a scheduler of the program, which made a step before."""
    trainer = make_trainer(model, labelled, folder, **arguments)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    scheduler = schedule(optimizer)
    model(**next(iter(labelled))).loss.backward()
    optimizer.step()
    scheduler.step()
    trainer.optimizer, trainer.lr_scheduler = optimizer, scheduler
    trainer.add_callback(Counts())
    return trainer


def all_of(trainer):
    """What a Trainer and its parts are, as numbers and words."""
    optimizer, scheduler = trainer.optimizer, trainer.lr_scheduler
    counts = trainer.callback_handler.callbacks[-1]
    parts = copy.deepcopy(
        {
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "steps": vars(trainer.state),
            "control": vars(trainer.control),
            "callback": vars(counts),
            "arguments": trainer.args.to_dict(),
            "config": trainer.model.config.to_dict(),
            "names": sorted(vars(trainer)),
            "kept": [len(trainer.accelerator._optimizers), trainer._created_lr_scheduler],
        }
    )
    return tree_map_only(torch.Tensor, torch.Tensor.tolist, parts)


def files_in(folder):
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def make_chain(optimizer):
    rates = torch.optim.lr_scheduler
    parts = [rates.LinearLR(optimizer, total_iters=3), rates.ExponentialLR(optimizer, 0.9)]
    return rates.SequentialLR(optimizer, parts, milestones=[2])


def make_slope(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)


@pytest.mark.parametrize("schedule", [make_slope, make_chain])
def test_trainer_with_an_optimizer_is_as_before(still, labelled, tmp_path, schedule):
    trainer = make_own_trainer(still, labelled, tmp_path / "out", schedule)
    optimizer, scheduler = trainer.optimizer, trainer.lr_scheduler
    names, groups = sorted(vars(optimizer)), optimizer.param_groups
    group = groups[0]
    modules = [sorted(vars(module)) for module in still.eval().modules()]
    before, values = state_of(still), all_of(trainer)
    arguments, callbacks = trainer.args, list(trainer.callback_handler.callbacks)
    drawn = random.getstate(), numpy.random.get_state()[1].tolist()
    for _ in range(2):
        got = profile_fine_tuning(trainer)
        assert got["epochs"][1]["steps"] == 2 and got["optimizer_memory"] > 0
        assert_untouched(before, still)
        assert (trainer.optimizer, trainer.lr_scheduler) == (optimizer, scheduler)
        assert trainer.args is arguments and trainer.callback_handler.callbacks == callbacks
        assert all_of(trainer) == values
        assert (random.getstate(), numpy.random.get_state()[1].tolist()) == drawn
        assert sorted(vars(optimizer)) == names
        assert optimizer.param_groups is groups and groups[0] is group  # the program may hold them
        assert [sorted(vars(module)) for module in still.modules()] == modules
    assert scheduler.optimizer is optimizer and optimizer.param_groups[0]["params"]


def test_trainer_leaves_no_checkpoint(still, labelled, tmp_path):
    """And removes none: three are there, and it would keep one."""
    out = tmp_path / "out"
    for number in (1, 2, 7):
        (out / f"checkpoint-{number}").mkdir(parents=True)
        (out / f"checkpoint-{number}" / "model.safetensors").write_text("mine")
    saves = {"save_total_limit": 1, "load_best_model_at_end": True, "eval_strategy": "epoch"}
    trainer = make_own_trainer(still, labelled, out, make_slope, **saves, save_strategy="epoch")
    saved = []

    class Looks(transformers.TrainerCallback):
        def on_save(self, args, state, control, **kwargs):
            saved.append(args.output_dir)

    trainer.add_callback(Looks)
    before, around = files_in(tmp_path), sorted(tmp_path.iterdir())
    profile_fine_tuning(trainer)
    assert len(saved) == 2 and str(out) not in saved  # a training as the program has it
    assert files_in(tmp_path) == before and sorted(tmp_path.iterdir()) == around
    trainer.training_step = lambda *args, **kwargs: 1 / 0
    with pytest.raises(ZeroDivisionError):
        profile_fine_tuning(trainer)
    assert files_in(tmp_path) == before and sorted(tmp_path.iterdir()) == around
    assert trainer.args.output_dir == str(out) and trainer.state.global_step == 0


def test_trainer_that_checkpoints_layers(still, labelled, tmp_path):
    """A switch of the model that the Trainer sets, and never takes back."""
    name = "activation_checkpointing"
    if not hasattr(transformers.TrainingArguments, name):
        name = "gradient_checkpointing"
    trainer = make_trainer(still, labelled, tmp_path, **{name: True})
    layer = still.bert.encoder.layer[0]
    before = sorted(vars(layer)), layer.gradient_checkpointing
    profile_fine_tuning(trainer)
    assert (sorted(vars(layer)), layer.gradient_checkpointing) == before


def test_dtype_of_a_trainer(still, labelled, tmp_path):
    assert profile_fine_tuning(make_trainer(still, labelled, tmp_path, bf16=True))["dtype"] == (
        "bfloat16"
    )
    assert "_original_forward" not in vars(still) and "forward" not in vars(still)


def test_arguments_of_a_trainer_that_is_kept():
    """Nothing is pushed, nothing written where the program writes; its own arguments stay."""
    from kinetoscope.hf import trainer_state

    given = types.SimpleNamespace(output_dir="mine", push_to_hub=True, logging_dir="logs")
    before = dict(vars(given))
    changed = vars(trainer_state._arguments_for(given, "other"))
    assert changed == {"output_dir": "other", "push_to_hub": False, "logging_dir": "other/logs"}
    assert vars(given) == before


def test_scale_of_a_trainer_is_put_back(still, labelled, tmp_path):
    from kinetoscope.hf.trainer_state import kept_trainer

    trainer = make_trainer(still, labelled, tmp_path)
    scaler = trainer.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(()))
    with kept_trainer(trainer):
        scaler.update(2.0)
        assert scaler.get_scale() == 2.0
    assert trainer.accelerator.scaler is scaler and scaler.get_scale() == 8.0


def test_trainer_that_keeps(still, labelled, tmp_path):
    before = {k: v.clone() for k, v in still.state_dict().items()}
    trainer = make_trainer(still, labelled, tmp_path / "out", save_strategy="epoch")
    profile_fine_tuning(trainer, keep=True)
    assert any(not torch.equal(v, before[k]) for k, v in still.state_dict().items())
    assert trainer.state.global_step == 4
    names = [p.name for p in sorted((tmp_path / "out").iterdir())]
    assert names == ["checkpoint-2", "checkpoint-4"]


@pytest.mark.parametrize("method", ["lora", "prompt_tuning"])
def test_peft(classifier, labelled, method):
    peft = pytest.importorskip("peft")
    before = state_of(classifier)
    options = {"method": method, "compare_full": True, "max_steps": 2}
    got = profile_peft_fine_tuning(classifier, labelled, labelled, **options)
    assert_untouched(before, classifier)
    kinds = {"lora": peft.LoraConfig, "prompt_tuning": peft.PromptTuningConfig}
    more = {"num_virtual_tokens": 8} if method == "prompt_tuning" else {}
    adapted = peft.get_peft_model(
        copy.deepcopy(classifier), kinds[method](task_type="SEQ_CLS", **more)
    )
    trained, total = adapted.get_nb_trainable_parameters()
    assert got["method"] == method and got["trainable_parameters"] == trained
    assert got["trainable_share"] == trained / sum(p.numel() for p in adapted.parameters())
    assert total > 10 * trained
    assert got["gradient_memory"] == got["adapter_bytes"] == 4 * trained
    saved = got["saved_memory"]
    assert saved["gradient_memory"] == got["full"]["gradient_memory"] - 4 * trained > 0
    assert saved["optimizer_memory"] > 0
    assert got["epochs"][0]["validation_loss"] > 0


def test_arguments_of_peft(classifier, labelled):
    pytest.importorskip("peft")
    with pytest.raises(ValueError, match="method"):
        profile_peft_fine_tuning(classifier, labelled, method="magic")
    optimizer = torch.optim.SGD(classifier.parameters(), lr=1)
    with pytest.raises(ValueError, match="optimizer"):
        profile_peft_fine_tuning(classifier, labelled, optimizer=optimizer)
