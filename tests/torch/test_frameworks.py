"""Goal: windows of a transformers.Trainer, of Lightning and of accelerate become reports, and
training is as without. Method: tiny real trainings by the installed packages; their losses with and
without."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        numbers = torch.Generator().manual_seed(index)
        return {"x": torch.randn(6, generator=numbers), "labels": torch.tensor(index % 3)}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(6, 3)

    def forward(self, x, labels=None):
        scores = self.inner(x)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


def train(folder, callbacks=(), fail_at=None):
    """(losses of each step, Trainer) of 12 steps of the optimizer with two micro-batches each."""
    losses = []

    class Losses(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            losses.append(logs.get("loss"))

        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == fail_at:
                raise KeyError("planted")

    torch.manual_seed(3)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=12,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=7,
    )
    trainer = transformers.Trainer(
        model=Model(), args=arguments, train_dataset=Samples(), callbacks=[Losses(), *callbacks]
    )
    trainer.train()
    return losses


def callback_of(ks, *args, **kwargs):
    from kinetoscope.hf import KinetoscopeCallback

    return KinetoscopeCallback(*args, **kwargs)


def test_trainer(ks, tmp_path):
    callback = callback_of(ks, tmp_path / "run", "3:1:4:1")
    assert train(tmp_path, [callback]) == train(tmp_path)
    report = ks.open(tmp_path / "run")
    assert [step["number"] for step in report.steps] == [4, 5, 6, 7]
    calls = {row["name"]: row["calls"] for row in report.operators}
    assert calls["aten::cross_entropy_loss"] == 8  # two micro-batches a step
    assert callback.failure is None and not torch.autograd._profiler_enabled()


def test_trainings_that_raise_are_closed(ks, tmp_path):
    callback = callback_of(ks, tmp_path / "run", "1:1:20:1")
    with pytest.raises(KeyError, match="planted"):
        train(tmp_path, [callback], fail_at=6)
    callback.close()
    assert not torch.autograd._profiler_enabled()
    assert len(ks.open(tmp_path / "run").steps) == 4  # 2 to 5
    train(tmp_path, [callback])  # it can be used again


def test_nothing_of_ours_ends_a_training(ks, tmp_path, monkeypatch):
    callback = callback_of(ks, tmp_path / "run", "1:1:4:1")
    with torch.profiler.profile():  # somebody else's goes first
        losses = train(tmp_path, [callback])
    assert len(losses) == 13 and isinstance(callback.failure, RuntimeError)
    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", lambda *_: 1 / 0)
    assert len(train(tmp_path, [callback])) == 13
    assert isinstance(callback.failure, ZeroDivisionError)
    assert not torch.autograd._profiler_enabled()


def test_arguments(ks, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        callback_of(ks, tmp_path / "file" / "below")
    with pytest.raises(ValueError, match="WAIT:WARMUP:ACTIVE"):
        callback_of(ks, tmp_path / "run", "sometimes")


# ------------------------------------------------------------ Lightning


def lightning_training(folder, callbacks=(), fail_at=None):
    """Losses of 12 steps of the optimizer with two micro-batches each, by Lightning's Trainer."""
    lightning = pytest.importorskip("pytorch_lightning")
    losses = []

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def training_step(self, batch, index):
            if self.trainer.global_step == fail_at:
                raise KeyError("planted")
            loss = self.model(**batch)["loss"]
            losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    lightning.seed_everything(5)
    trainer = lightning.Trainer(
        max_steps=12,
        accumulate_grad_batches=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=list(callbacks),
    )
    loader = torch.utils.data.DataLoader(Samples(), batch_size=2, shuffle=True)
    trainer.fit(Module(), loader)
    return losses


def lightning_callback(ks, *args, **kwargs):
    pytest.importorskip("pytorch_lightning")
    from kinetoscope.lightning import KinetoscopeCallback

    return KinetoscopeCallback(*args, **kwargs)


def test_lightning(ks, tmp_path):
    callback = lightning_callback(ks, tmp_path / "run", "3:1:4:1")
    losses = lightning_training(tmp_path, [callback])
    assert len(losses) == 24 and losses == lightning_training(tmp_path)
    report = ks.open(tmp_path / "run")
    assert [step["number"] for step in report.steps] == [4, 5, 6, 7]
    calls = {row["name"]: row["calls"] for row in report.operators}
    assert calls["aten::cross_entropy_loss"] == 8  # two micro-batches a step
    assert callback.failure is None and not torch.autograd._profiler_enabled()


def test_lightning_that_raises_is_closed(ks, tmp_path):
    callback = lightning_callback(ks, tmp_path / "run", "1:1:20:1")
    with pytest.raises(KeyError, match="planted"):
        lightning_training(tmp_path, [callback], fail_at=6)
    assert not torch.autograd._profiler_enabled()
    assert len(ks.open(tmp_path / "run").steps) == 4  # 2 to 5
    lightning_training(tmp_path, [callback])  # it can be used again
    assert callback.failure is None


def test_nothing_of_ours_ends_a_lightning_training(ks, tmp_path, monkeypatch):
    callback = lightning_callback(ks, tmp_path / "run", "1:1:4:1")
    with torch.profiler.profile():  # somebody else's goes first
        assert len(lightning_training(tmp_path, [callback])) == 24
    assert isinstance(callback.failure, RuntimeError)
    with pytest.raises(ValueError, match="WAIT:WARMUP:ACTIVE"):
        lightning_callback(ks, tmp_path / "run", "sometimes")


def test_accelerate(ks, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    profile = accelerate.utils.ProfileKwargs(
        activities=["cpu"],
        schedule_option={"wait": 1, "warmup": 1, "active": 3, "repeat": 1, "skip_first": 0},
        on_trace_ready=ks.handler(tmp_path / "run"),
    )
    accelerator = accelerate.Accelerator(cpu=True, kwargs_handlers=[profile])
    loader = torch.utils.data.DataLoader(Samples(), batch_size=4)
    model = Model()
    model, loader = accelerator.prepare(model, loader)
    with accelerator.profile() as theirs:
        for batch in loader:
            accelerator.backward(model(**batch)["loss"])
            theirs.step()
    report = ks.open(tmp_path / "run")
    assert [step["number"] for step in report.steps] == [2, 3, 4]
    calls = {row["name"]: row["calls"] for row in report.operators}
    assert calls["aten::cross_entropy_loss"] == 3
