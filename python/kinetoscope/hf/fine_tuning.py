"""profile_fine_tuning: epochs of a training with their losses, speed and memory."""

import contextlib
import itertools
from itertools import pairwise

import torch

import kinetoscope
from kinetoscope._engine import summarize
from kinetoscope.hf import inference, measuring
from kinetoscope.torch.state_guard import kept_state
from kinetoscope.torch.tensor_tree import move, tensors_of
from kinetoscope.torch.training_pipeline import loss_of, split_batch
from kinetoscope.tune.work import SCALE_FIRST, make_scaler

LEARNING_RATE = 5e-5
_KEYS = (
    "epochs",
    "trainable_parameters",
    "parameter_bytes",
    "gradient_memory",
    "optimizer_memory",
    "peak_memory",
    "dtype",
)


def profile_fine_tuning(
    model,
    train_data=None,
    validation_data=None,
    config=None,
    *,
    num_epochs=1,
    optimizer=None,
    loss_fn=None,
    max_steps=None,
    keep=False,
):
    """Trains for some epochs, says what that took, and puts everything back as it was.

    model: a module, or a transformers.Trainer, which brings all else; with its optimizer,
    scheduler, state and callbacks it is as before, too, and what it writes goes. train_data,
    validation_data: loaders of batches (mappings of arguments, or (input, target)); of an iterator,
    which can be gone through once, the batches are kept. optimizer: else AdamW with a rate of 5e-5.
    loss_fn(output, target): else the output's loss, else cross-entropy. max_steps: in each epoch.
    keep: the model stays trained. The precision is that of use_mixed_precision and
    mixed_precision_dtype (float16 with a scaled loss).

    {epochs [{epoch, train_loss, validation_loss (means of batches; None without data), train_time,
    validation_time (s), steps, step_time {count, mean, std, p50, ...}, phases {forward, backward,
    optimizer: s}, train_samples_per_second, train_tokens_per_second,
    validation_samples_per_second}], trainable_parameters, parameter_bytes, gradient_memory,
    optimizer_memory (bytes of tensors), peak_memory (bytes above weights and the optimizer's state
    in a step; on a GPU of all steps), dtype}. With profile_fine_tuning off all is None. ValueError:
    nothing to train with.
    """
    config = measuring.config_or_default(config)
    if not config.profile_fine_tuning:
        return dict.fromkeys(_KEYS)
    if _is_trainer(model):
        from kinetoscope.hf import trainer_profile

        return trainer_profile.run(model, keep)
    if train_data is None:
        raise ValueError("there is nothing to train with: train_data is missing")
    train_data, validation_data = (
        _again(data, max_steps) for data in (train_data, validation_data)
    )
    trained = [p for p in model.parameters() if p.requires_grad]
    if optimizer is None:
        if not trained:
            raise ValueError("no parameter of the model is trained")
        optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE)
    training = _Training(model, optimizer, loss_fn, config, max_steps)
    guard = _modes_kept(model) if keep else kept_state(model, optimizer, train_data)
    with guard, kinetoscope.profile_operation("fine_tuning", "training_loop"):
        memory = _memory_of_a_step(training, model, optimizer, train_data)
        peak = PeakOnGpu(training.device, optimizer)
        epochs = [training.epoch(n, train_data, validation_data) for n in range(1, num_epochs + 1)]
        held = peak.bytes()
    return {
        "epochs": epochs,
        "trainable_parameters": sum(p.numel() for p in trained),
        "parameter_bytes": measuring.bytes_of(list(model.parameters())),
        **memory,
        **({} if held is None else {"peak_memory": held}),
        "dtype": inference.dtype_name(model, config),
    }


def _again(data, max_steps):
    """What can be gone through once for each epoch."""
    if not hasattr(data, "__next__"):
        return data
    return list(itertools.islice(data, max_steps))


def _is_trainer(thing):
    return not isinstance(thing, torch.nn.Module) and callable(getattr(thing, "train", None))


@contextlib.contextmanager
def _modes_kept(model):
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _memory_of_a_step(training, model, optimizer, data):
    """Gradients, the optimizer's state and the peak of one step, after which all is as before."""
    batch = next(iter(data), None)
    if batch is None:
        raise ValueError("the loader is empty: there is nothing to train with")
    figures = {}

    def step():
        training.step(batch, [], look)

    def look():
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        figures["gradient_memory"] = measuring.bytes_of(grads)

    with kept_state(model, optimizer, data):
        model.train()
        step()  # the optimizer makes its state, which then is there
        is_hidden = training.device.type == "cpu" and measuring.is_compiled(model)
        peak = None if is_hidden else measuring.peak_bytes(step, training.device)
        figures["optimizer_memory"] = optimizer_bytes(optimizer)
    return {**figures, "peak_memory": peak}


def optimizer_bytes(optimizer, device=None):
    """Bytes of the tensors of an optimizer's state, of those on the device."""
    states = [list(state.values()) for state in optimizer.state.values()]
    return measuring.bytes_of(
        [t for t in tensors_of(states) if device is None or t.device.type == device.type]
    )


class PeakOnGpu:
    """How much a training takes beside the weights and the optimizer's state, which may be made
    meanwhile. None without a GPU."""

    def __init__(self, device, optimizer):
        self._device, self._optimizer = device, optimizer
        self._before = None
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self._before = torch.cuda.memory_allocated(device) - self._state()

    def _state(self):
        return 0 if self._optimizer is None else optimizer_bytes(self._optimizer, self._device)

    def bytes(self):
        if self._before is None:
            return None
        return torch.cuda.max_memory_allocated(self._device) - self._before - self._state()


class _Training:
    def __init__(self, model, optimizer, loss_fn, config, max_steps):
        self._model = model
        self._optimizer = optimizer
        self._loss_fn = loss_fn
        self._max_steps = max_steps
        self.device = measuring.device_of(model)
        is_half = measuring.mixed_dtype(config, model) == torch.float16
        self._precision = measuring.make_precision(config, model)
        self._scaler = make_scaler(self.device, SCALE_FIRST) if is_half else None

    # ---------------------------------------------------------------- epochs

    def epoch(self, number, train_data, validation_data):
        with kinetoscope.profile_operation("train_epoch", "training_loop"):
            train = self._train(train_data)
        with kinetoscope.profile_operation("validate_epoch", "validation"):
            judged = self._judge(validation_data) if validation_data is not None else None
        return {
            "epoch": number,
            "train_loss": train["loss"],
            "validation_loss": judged and judged["loss"],
            "train_time": train["time"],
            "validation_time": judged and judged["time"],
            "steps": train["step_time"]["count"],
            "step_time": train["step_time"],
            "phases": train["phases"],
            "train_samples_per_second": train["samples_per_second"],
            "train_tokens_per_second": train["tokens_per_second"],
            "validation_samples_per_second": judged and judged["samples_per_second"],
        }

    def _train(self, data):
        self._model.train()
        marks, losses, counts = [], [], []
        began_ns = measuring.now_ns(self.device)
        for batch in self._first(data):
            losses.append(self.step(batch, marks))
            counts.append(_count(batch))
        figures = self._figures(began_ns, losses, counts)
        return {**figures, **_lengths(marks)}

    def _judge(self, data):
        losses, counts = [], []
        with measuring.evaluating(self._model), torch.no_grad():
            began_ns = measuring.now_ns(self.device)
            for batch in self._first(data):
                losses.append(self._loss(move(batch, self.device)))
                counts.append(_count(batch))
            return self._figures(began_ns, losses, counts)

    def _first(self, data):
        for number, batch in enumerate(data):
            if self._max_steps is not None and number >= self._max_steps:
                return
            yield batch

    def _figures(self, began_ns, losses, counts):
        """Losses are read once for all steps: reading one waits for the GPU."""
        elapsed = measuring.seconds(began_ns, measuring.now_ns(self.device))
        known = [loss.detach().float() for loss in losses if loss is not None]
        values = torch.stack(known).tolist() if known else []
        is_finite = all(abs(value) < float("inf") for value in values)
        tokens = [tokens for _, tokens in counts]
        return {
            "loss": _mean(values, is_finite),
            "time": elapsed,
            "samples_per_second": sum(count for count, _ in counts) / elapsed,
            "tokens_per_second": None if None in tokens else sum(tokens) / elapsed,
        }

    # ---------------------------------------------------------------- one step

    def step(self, batch, marks, look=None):
        """One step; `look` is called while its gradients are there. Appends the moments between
        which its phases lie, and waits for none. Returns the loss."""
        moments = [measuring.mark(self.device)]
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._loss(move(batch, self.device))
        if loss is None or not loss.requires_grad:
            raise ValueError("there is no loss: the model gives none, and loss_fn is missing")
        moments.append(measuring.mark(self.device))
        (self._scaler.scale(loss) if self._scaler else loss).backward()
        moments.append(measuring.mark(self.device))
        if look is not None:
            look()
        self._optimize()
        moments.append(measuring.mark(self.device))
        marks.append(moments)
        return loss.detach()

    def _optimize(self):
        if self._scaler is None:
            self._optimizer.step()
            return
        self._scaler.step(self._optimizer)
        self._scaler.update()

    def _loss(self, batch):
        inputs, target = split_batch(batch)
        with self._precision():
            output = _call(self._model, inputs)
            return loss_of(self._loss_fn, output, target)[1]


def _lengths(marks):
    """Of steps, and of all their phases."""
    steps = [measuring.between(moments[0], moments[-1]) for moments in marks]
    parts = [[measuring.between(*pair) for pair in pairwise(moments)] for moments in marks]
    names = ("forward", "backward", "optimizer")
    phases = {name: sum(part[at] for part in parts) for at, name in enumerate(names)}
    return {"step_time": summarize(steps), "phases": phases}


def _call(model, inputs):
    return model(**inputs) if hasattr(inputs, "keys") else model(inputs)


def _mean(values, is_finite):
    """What a loss came to that is not finite says so itself."""
    if not values:
        return None
    return summarize(values)["mean"] if is_finite else sum(values) / len(values)


def _count(batch):
    """(samples, tokens without padding or None) of a batch"""
    if hasattr(batch, "keys"):
        return inference.count_tokens(batch)
    first = next(tensors_of(batch), None)
    return (0 if first is None else len(first)), None
