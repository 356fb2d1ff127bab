"""Steps of a training as profile_training_pipeline runs them: fetch, forward, loss, backward,
optimizer, each in a region that reports know."""

import contextlib
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter_ns
from typing import Any

import torch
from torch.profiler import record_function

from kinetoscope.torch.tensor_tree import move
from kinetoscope.torch.torch_profiler import call_model

GIVEN, OF_OUTPUT, CROSS_ENTROPY, NONE = "given", "output.loss", "cross_entropy", "none"


@dataclass
class Pipeline:
    """A model with what trains it. `loss_kind` says after a step where its loss came from."""

    model: torch.nn.Module
    loss_fn: Any = None
    optimizer: Any = None
    has_forward_region: bool = True
    loss_kind: str | None = None

    def __post_init__(self):
        if not isinstance(self.model, torch.nn.Module):
            raise TypeError(f"not a torch.nn.Module: {type(self.model).__name__}")
        if self.loss_fn is not None and not callable(self.loss_fn):
            raise TypeError(f"loss_fn cannot be called: {type(self.loss_fn).__name__}")
        tensor = next(self.model.parameters(), None)
        self._device = None if tensor is None else tensor.device

    def run(self, loader, steps, end_step):
        """Steps over the first batches of a loader; `end_step` is called behind each. Returns how
        many there were."""
        iterator = iter(loader)
        done = 0
        while done < steps:
            try:
                batch = next(iterator)
            except StopIteration:
                break
            self.step(batch)
            end_step()
            done += 1
        return done

    def run_free(self, loader, steps):
        """As run(), without anything that records. Returns the length of each step in seconds, with
        what the GPU did in it."""
        ends_ns = [perf_counter_ns()]

        def end_step():
            if self._device is not None and self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            ends_ns.append(perf_counter_ns())

        self.run(loader, steps, end_step)
        return [(end - start) / 1e9 for start, end in pairwise(ends_ns)]

    def step(self, batch):
        """One step of a training with one batch."""
        with record_function("memory_transfer"):
            batch = batch if self._device is None else move(batch, self._device)
        inputs, target = split_batch(batch)
        self.model.zero_grad(set_to_none=True)
        with record_function("forward_pass") if self.has_forward_region else _nothing():
            output = call_model(self.model, inputs)
        with record_function("loss_computation"):
            loss = self._loss(output, target)
        if loss is None or not loss.requires_grad:
            return
        with record_function("backward_pass"):
            loss.backward()
        if self.optimizer is not None:
            with record_function("optimizer_step"):
                self.optimizer.step()

    def _loss(self, output, target):
        self.loss_kind, loss = loss_of(self.loss_fn, output, target)
        return loss


def _nothing():
    return contextlib.nullcontext()


def split_batch(batch):
    """(what the model is called with, target): of a pair its last is the target; a mapping brings
    its own."""
    if isinstance(batch, tuple | list) and len(batch) >= 2:
        *inputs, target = batch
        return (inputs[0] if len(inputs) == 1 else tuple(inputs)), target
    if isinstance(batch, tuple | list) and len(batch) == 1:
        return batch[0], None
    if hasattr(batch, "keys"):
        return batch, batch["labels"] if "labels" in batch else None
    return batch, None


def loss_of(loss_fn, output, target):
    if loss_fn is not None:
        return GIVEN, loss_fn(output, target)
    own = getattr(output, "loss", None)
    if isinstance(own, torch.Tensor):
        return OF_OUTPUT, own
    scores = output if isinstance(output, torch.Tensor) else getattr(output, "logits", None)
    is_classes = isinstance(target, torch.Tensor) and target.dtype in (torch.int32, torch.int64)
    if is_classes and isinstance(scores, torch.Tensor) and scores.ndim == target.ndim + 1:
        return CROSS_ENTROPY, torch.nn.functional.cross_entropy(scores, target.long())
    return NONE, None
