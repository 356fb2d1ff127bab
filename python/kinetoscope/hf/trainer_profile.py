"""What a run of transformers.Trainer took, by epochs: for profile_fine_tuning."""

import contextlib

from transformers import TrainerCallback

from kinetoscope._engine import summarize
from kinetoscope.hf import fine_tuning, inference, measuring
from kinetoscope.hf.trainer_state import kept_trainer
from kinetoscope.torch.state_guard import kept_random


def run(trainer, keep):
    """Runs trainer.train() and gives the figures of profile_fine_tuning; phases are None, for the
    Trainer has its own loop."""
    model = trainer.model
    watch = _Epochs(trainer)
    with kept_random() if keep else kept_trainer(trainer):
        trainer.add_callback(watch)
        try:
            with watch.watching():
                trainer.train()
                memory = watch.memory()
        finally:
            trainer.remove_callback(watch)
    return {
        "epochs": watch.epochs,
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "parameter_bytes": measuring.bytes_of(list(model.parameters())),
        **memory,
        "dtype": _dtype_name(trainer),
    }


def _dtype_name(trainer):
    """The Trainer has switches of its own for what operators compute in."""
    for switch, name in (("bf16", "bfloat16"), ("fp16", "float16")):
        if getattr(trainer.args, switch, False):
            return name
    return inference.dtype_name(trainer.model, None)


class _Epochs(TrainerCallback):
    """Epochs of a Trainer: losses as training_step gives them, whatever is logged and when."""

    def __init__(self, trainer):
        self.epochs = []
        self._trainer = trainer
        self._device = measuring.device_of(trainer.model)
        self._gradients = self._optimizer = self._peak = self._on_gpu = None
        self._is_judging = False
        self._restart()

    def _restart(self):
        self._losses, self._counts, self._steps = [], [], []
        self._judged = None
        self._began_ns = self._step_ns = measuring.perf_counter_ns()

    @contextlib.contextmanager
    def watching(self):
        """In the block each training step of the trainer is looked at."""
        own = vars(self._trainer).get("training_step")
        function = self._trainer.training_step

        def training_step(model, inputs, *args, **kwargs):
            loss = function(model, inputs, *args, **kwargs)
            self._losses.append(loss.detach())
            self._counts.append(inference.count_tokens(inputs))
            return loss

        self._trainer.training_step = training_step
        try:
            yield
        finally:
            if own is None:
                del self._trainer.training_step
            else:
                self._trainer.training_step = own

    def memory(self):
        return {
            "gradient_memory": self._gradients,
            "optimizer_memory": self._optimizer,
            "peak_memory": self._peak,
        }

    def on_train_begin(self, args, state, control, **kwargs):
        self._on_gpu = fine_tuning.PeakOnGpu(self._device, self._raw_optimizer())

    def on_epoch_begin(self, args, state, control, **kwargs):
        self._restart()

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if self._gradients is None:
            grads = [p.grad for p in self._trainer.model.parameters() if p.grad is not None]
            self._gradients = measuring.bytes_of(grads)

    def on_step_end(self, args, state, control, **kwargs):
        now_ns = measuring.now_ns(self._device)
        self._steps.append(measuring.seconds(self._step_ns, now_ns))
        self._step_ns = now_ns

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        self._judged = metrics or {}

    def on_epoch_end(self, args, state, control, **kwargs):
        train_s = measuring.seconds(self._began_ns, measuring.now_ns(self._device))
        # Each is its part of the loss of its step, of which there are several when they accumulate.
        losses = [float(loss) for loss in self._losses]
        steps, counts = self._steps, self._counts
        self._look_at_memory()
        tokens = [count for _, count in counts]
        row = {
            "epoch": len(self.epochs) + 1,
            "train_loss": sum(losses) / len(steps) if steps else None,
            "train_time": train_s,
            "steps": len(steps),
            "step_time": summarize(steps),
            "phases": None,
            "train_samples_per_second": sum(count for count, _ in counts) / train_s,
            "train_tokens_per_second": None if None in tokens else sum(tokens) / train_s,
        }
        self.epochs.append({**row, **self._validation()})

    def _validation(self):
        """What the Trainer's own validation of this epoch said; else one is made here."""
        if self._judged is None and self._trainer.eval_dataset is not None:
            with kept_random():
                self._judged = self._judge()
        judged = self._judged or {}
        return {
            "validation_loss": judged.get("eval_loss"),
            "validation_time": judged.get("eval_runtime"),
            "validation_samples_per_second": judged.get("eval_samples_per_second"),
        }

    def _judge(self):
        """As trainer.evaluate(), which would also write a log and so take away the next one."""
        trainer = self._trainer
        loader = trainer.get_eval_dataloader()
        began_ns = measuring.now_ns(self._device)
        output = trainer.evaluation_loop(loader, "Validation", prediction_loss_only=True)
        elapsed = measuring.seconds(began_ns, measuring.now_ns(self._device))
        rate = output.num_samples / elapsed
        return {**output.metrics, "eval_runtime": elapsed, "eval_samples_per_second": rate}

    def _look_at_memory(self):
        optimizer = self._raw_optimizer()
        if optimizer is not None:
            self._optimizer = fine_tuning.optimizer_bytes(optimizer)
        self._peak = self._on_gpu.bytes()

    def _raw_optimizer(self):
        optimizer = self._trainer.optimizer
        return getattr(optimizer, "optimizer", optimizer)
