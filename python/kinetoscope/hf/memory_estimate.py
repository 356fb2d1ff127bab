"""estimate_memory: the peak of a training step or of a forward, before there is memory for it.

A twin of the model whose tensors have shapes and no data (torch's FakeTensorMode) goes through
a whole step: what autograd saves, when it frees it, and what the optimizer makes are torch's own,
for any architecture and attention. `_kscope_engine` adds up what is alive. Nothing of the model is
copied or changed.
"""

import contextlib
import inspect

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)

from kinetoscope._engine import MemoryCurve
from kinetoscope.hf import cuda_memory, measuring, model_source, sharding
from kinetoscope.hf.fake_twin import AnswersAboutMasks, make_twin
from kinetoscope.hf.storage_watch import StorageWatch
from kinetoscope.torch.state_guard import kept_random
from kinetoscope.torch.tensor_tree import tensors_of

KINDS = (
    "parameters",
    "buffers",
    "inputs",
    "gradients",
    "optimizer_state",
    "activations",
    "temporary",
    "communication",
)
_NUMBER = {name: number for number, name in enumerate(KINDS)}
_OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}


def estimate_memory(
    model,
    batch,
    seq,
    dtype=None,
    optimizer="adamw",
    checkpointing=False,
    ranks=1,
    *,
    sharding="ddp",
    device=None,
    autocast=None,
    inputs=None,
    keeps_outputs=False,
    accumulates=False,
):
    """What the allocator of one rank holds at the peak of a step with `batch` texts of `seq` tokens
    without padding.

    model: a module, a transformers configuration, or a folder with one. dtype: of weights (None: as
    they are). optimizer: adamw, adam, sgd, a class, an optimizer (its settings count), or None: a
    forward without gradients. checkpointing: gradient checkpointing of transformers. ranks and
    sharding: ddp, zero1, zero2, or zero3 (FSDP with full sharding). device: cpu or cuda (None: the
    model's). autocast: a dtype. inputs: {name: tensor}, for models that take no text; batch and
    seq are not looked at then. keeps_outputs: the program holds the model's output until the next
    one. accumulates: gradients are there when the forward begins.

    {total_bytes, peak_phase (forward, backward, optimizer), parts {parameters, buffers, inputs,
    gradients, optimizer_state, activations, temporary, communication}: bytes at the peak,
    phases {name: {..., total}}: those at the peak of each, workspace_bytes (cuBLAS's, in total, not
    in parts), parameter_count, trainable_count, device, attention, ranks, sharding}.

    TypeError, ValueError: arguments; a model whose steps depend on values of its data. Takes about
    a tenth of a second a layer, on the CPU; torch must have FakeTensorMode (2.1 and later).
    """
    model = model_source.make_without_data(model)
    plan = _Plan(dtype, optimizer, checkpointing, ranks, sharding, autocast)
    device = cuda_memory.device_for(model, device)
    walk = _Walk(model, plan, device)
    try:
        with kept_random():
            phases = walk.run(batch, seq, inputs, keeps_outputs, accumulates)
    except (
        DataDependentOutputException,
        DynamicOutputShapeException,
        UnsupportedOperatorException,
    ) as failure:
        reason = f"a step of {type(model).__name__} depends on its data: {failure}"
        raise ValueError(reason) from failure
    return _result(model, plan, device, phases)


def _result(model, plan, device, phases):
    peak_phase = max(phases, key=lambda name: phases[name]["total"])
    workspace = cuda_memory.workspace_bytes(device, plan.is_training)
    parameters = list(model.parameters())
    return {
        "total_bytes": phases[peak_phase]["total"] + workspace,
        "peak_phase": peak_phase,
        "parts": {name: phases[peak_phase][name] for name in KINDS},
        "phases": phases,
        "workspace_bytes": workspace,
        "parameter_count": sum(p.numel() for p in parameters),
        "trainable_count": sum(p.numel() for p in parameters if p.requires_grad),
        "device": device.type,
        "attention": model_source.attention_of(model),
        "ranks": plan.ranks,
        "sharding": plan.sharding if plan.ranks > 1 else None,
    }


class _Plan:
    """What was asked for, checked."""

    def __init__(self, dtype, optimizer, checkpointing, ranks, sharding_name, autocast):
        if ranks < 1:
            raise ValueError(f"ranks must be at least 1, not {ranks}")
        if sharding_name not in sharding.NAMES:
            raise ValueError(f"sharding is one of {sharding.NAMES}, not {sharding_name!r}")
        self.dtype = measuring.dtype_of(dtype)
        self.optimizer_class, self.optimizer_settings = _read_optimizer(optimizer)
        self.checkpointing = checkpointing
        self.ranks = ranks
        self.sharding = sharding_name
        self.autocast = measuring.dtype_of(autocast)

    @property
    def is_training(self):
        return self.optimizer_class is not None


def _read_optimizer(optimizer):
    """(class or None, settings)"""
    if optimizer is None:
        return None, {}
    if isinstance(optimizer, str):
        if optimizer.lower() not in _OPTIMIZERS:
            raise ValueError(f"optimizer is one of {list(_OPTIMIZERS)}, not {optimizer!r}")
        return _OPTIMIZERS[optimizer.lower()], {}
    if isinstance(optimizer, torch.optim.Optimizer):
        taken = inspect.signature(type(optimizer).__init__).parameters
        return type(optimizer), {k: v for k, v in optimizer.defaults.items() if k in taken}
    if isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer):
        return optimizer, {}
    raise TypeError(f"no optimizer: {optimizer!r}")


class _Walk:
    """Steps of the twin. `run` says what was alive at the peak of each phase."""

    def __init__(self, model, plan, device):
        self._plan = plan
        self._device = device
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        fake_device = cuda_memory.fake_device(device)
        self._fake_device = fake_device
        self._twin = make_twin(model, self._mode, fake_device, plan.dtype)
        self._twin.train(plan.is_training)
        if plan.checkpointing:
            _checkpoint(self._twin)
        shares = sharding.shares(plan.sharding, plan.ranks)
        block = cuda_memory.BLOCK if device.type == "cuda" else 1
        self._curve = MemoryCurve(KINDS, block=block, shares=shares)
        self._watch = StorageWatch(self._curve, _NUMBER["temporary"])
        self._phases = {}

    def run(self, batch, seq, inputs, keeps_outputs, accumulates):
        with self._mode, torch.set_grad_enabled(self._plan.is_training):
            inputs = self._inputs(batch, seq, inputs)
            optimizer = self._make_optimizer()
            place = cuda_memory.as_on(self._device, self._fake_device)
            with place, AnswersAboutMasks(), self._watch:
                self._see_what_is_there(inputs)
                if optimizer is None:
                    self._forward(inputs)
                    return self._phases
                handles = self._watch_gradients()
                self._train(inputs, optimizer, keeps_outputs, accumulates)
                for handle in handles:
                    handle.remove()
        return self._phases

    def _train(self, inputs, optimizer, keeps_outputs, accumulates):
        self._make_state(optimizer)
        kept = None
        if keeps_outputs:  # a loop that does holds the one before until the forward has ended
            loss, kept = self._forward(inputs)
            self._backward(loss)
            self._step(optimizer)
        if accumulates:
            self._backward(self._forward(inputs)[0])
        loss, output = self._forward(inputs)
        kept = output if keeps_outputs else None
        del output
        self._backward(loss)
        del loss
        self._step(optimizer)
        del kept

    def _make_state(self, optimizer):
        """What an optimizer keeps is there from its first step on, and it needs no forward."""
        for parameter in _trained(self._twin):
            parameter.grad = torch.empty_like(parameter)
        self._step(optimizer)
        self._phases.clear()

    def _inputs(self, batch, seq, inputs):
        if inputs is None:
            return model_source.make_inputs(self._twin, batch, seq, self._fake_device)
        return {
            name: torch.empty_like(value, device=self._fake_device)
            if isinstance(value, torch.Tensor)
            else value
            for name, value in inputs.items()
        }

    def _make_optimizer(self):
        if not self._plan.is_training:
            return None
        settings = dict(self._plan.optimizer_settings)
        taken = inspect.signature(self._plan.optimizer_class.__init__).parameters
        if self._device.type == "cuda" and settings.get("foreach") is None and "foreach" in taken:
            settings["foreach"] = not settings.get("fused")
        if settings.pop("fused", None):
            settings["foreach"] = False
        settings.pop("capturable", None)
        if "lr" in taken and taken["lr"].default is inspect.Parameter.empty:
            settings.setdefault("lr", 1e-3)
        trained = _trained(self._twin)
        if not trained:
            raise ValueError("no parameter of the model is trained: optimizer=None estimates that")
        return self._plan.optimizer_class(trained, **settings)

    def _see_what_is_there(self, inputs):
        for parameter in self._twin.parameters():
            self._watch.see(parameter, _NUMBER["parameters"])
        for buffer in self._twin.buffers():
            self._watch.see(buffer, _NUMBER["buffers"])
        for tensor in tensors_of(inputs):
            self._watch.see(tensor, _NUMBER["inputs"])
        plan = self._plan
        bytes_moved = sharding.communication_bytes(self._twin, plan.sharding, plan.ranks)
        self._curve.change(_NUMBER["communication"], bytes_moved)

    def _watch_gradients(self):
        """A gradient is one from the moment when it lies in .grad."""

        def arrived(parameter):
            self._watch.set_kind(parameter.grad, _NUMBER["gradients"])

        trained = _trained(self._twin)
        return [p.register_post_accumulate_grad_hook(arrived) for p in trained]

    def _forward(self, inputs):
        self._curve.restart()
        self._watch.kind = _NUMBER["activations"]
        with self._autocast():
            output = self._twin(**inputs)
        self._keep_phase("forward")
        self._watch.kind = _NUMBER["temporary"]
        return _loss_of(output) if self._plan.is_training else None, output

    def _autocast(self):
        if self._plan.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self._fake_device.type, dtype=self._plan.autocast)

    def _backward(self, loss):
        self._curve.restart()
        loss.backward()
        self._keep_phase("backward")

    def _step(self, optimizer):
        self._curve.restart()
        optimizer.step()
        for state in optimizer.state.values():
            for tensor in tensors_of(list(state.values())):
                self._watch.set_kind(tensor, _NUMBER["optimizer_state"])
        self._keep_phase("optimizer")
        optimizer.zero_grad(set_to_none=True)

    def _keep_phase(self, name):
        before, peak = self._phases.get(name), self._curve.peak()
        if before is None or peak["total"] > before["total"]:
            self._phases[name] = peak


def _trained(module):
    return [p for p in module.parameters() if p.requires_grad]


def _checkpoint(twin):
    """Random states are real tensors, which the twin has none of; they take no memory to speak
    of. Settings can be given since transformers 4.35; version 5 renamed the switch."""
    settings = {"use_reentrant": False, "preserve_rng_state": False}
    for word in ("activation_checkpointing", "gradient_checkpointing"):
        enable = getattr(twin, f"{word}_enable", None)
        if enable is not None:
            break
    try:
        enable(**{f"{word}_kwargs": settings})
    except (TypeError, ValueError) as failure:
        reason = f"this {type(twin).__name__} has no gradient checkpointing that can be set up"
        raise ValueError(reason) from failure


def _loss_of(output):
    """The output's loss; of a model without one the sum of what it gives first."""
    loss = getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    for tensor in tensors_of(output):
        if tensor.requires_grad and tensor.is_floating_point():
            return tensor.sum()
    raise ValueError("the model's output leads back to no parameter")
