"""Puts back what training steps change: for profiling that must leave a program as it was."""

import contextlib
import copy
import functools
import random
import sys
import types

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

PARTS_MAX = 1000  # of a list of data sets or settings; a longer one holds samples
_NAMES = ("dataset", "sampler", "batch_sampler", "collate_fn", "transform", "transforms")


@contextlib.contextmanager
def kept_state(model, optimizer=None, loader=None):
    """In the block the model may train; after it, and after an exception, all is as before:
    parameters, buffers, gradients, modes, optimizer, random states.

    Costs one copy of parameters, buffers, gradients and the optimizer's state in their own memory.
    """
    restores = [_keep_tensors(model), _keep_modes(model), keep_random(loader)]
    if optimizer is not None:
        restores.append(_keep_optimizer(optimizer))
    try:
        yield
    finally:
        for restore in restores:
            restore()


def _keep_tensors(model):
    tensors = [*model.parameters(), *model.buffers()]
    kept = [(t, t.detach().clone(), _clone(t.grad)) for t in tensors]

    def restore():
        with torch.no_grad():
            for tensor, value, grad in kept:
                tensor.copy_(value)
                tensor.grad = grad

    return restore


def _clone(grad):
    return None if grad is None else grad.detach().clone()


def _keep_modes(model):
    modes = [(module, module.training) for module in model.modules()]

    def restore():
        for module, training in modes:
            module.training = training

    return restore


def _keep_optimizer(optimizer):
    state = {key: copy.deepcopy(value) for key, value in optimizer.state.items()}
    groups = [{k: copy.copy(v) for k, v in g.items()} for g in optimizer.param_groups]

    def restore():
        optimizer.state.clear()
        optimizer.state.update(state)
        for group, kept in zip(optimizer.param_groups, groups, strict=True):
            group.clear()
            group.update(kept)

    return restore


def keep_random(*sources):
    """A function that puts states of random numbers back to what they are now, as often as it is
    called; kept_random says which."""
    python, cpu = random.getstate(), torch.get_rng_state()
    gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    numpy = sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy is not None else None
    generators = [_keep_generator(g) for g in _generators(sources)]

    def restore():
        random.setstate(python)
        torch.set_rng_state(cpu)
        if gpu is not None:
            torch.cuda.set_rng_state_all(gpu)
        if of_numpy is not None:
            numpy.random.set_state(of_numpy)
        for restore_one in generators:
            restore_one()

    return restore


def _keep_generator(generator):
    """A function that puts its state back."""
    if isinstance(generator, random.Random):
        return functools.partial(generator.setstate, generator.getstate())
    if hasattr(generator, "bit_generator"):  # of numpy
        bits = generator.bit_generator
        return functools.partial(setattr, bits, "state", copy.deepcopy(bits.state))
    return functools.partial(generator.set_state, generator.get_state())


def _generators(sources):
    """Those that loaders draw from, their samplers, data sets, and what these are made of. A source
    may also be a mapping of a loader's arguments, or a list of sources."""
    found, seen, waiting = [], set(), list(sources)
    while waiting:
        owner = waiting.pop()
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        if _is_generator(owner):
            found.append(owner)
        else:
            waiting += _parts_of(owner)
    return found


def _is_generator(value):
    if isinstance(value, torch.Generator | random.Random):
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(
        value, numpy.random.Generator | numpy.random.RandomState
    )


def _parts_of(owner):
    if isinstance(owner, dict):
        return [v for v in owner.values() if _has_parts(v)] if len(owner) <= PARTS_MAX else []
    if isinstance(owner, list | tuple):
        is_short = len(owner) <= PARTS_MAX
        return [v for v in owner if isinstance(v, dict) or _has_parts(v)] if is_short else []
    if isinstance(owner, types.MethodType):  # a data set's collate_fn
        return [owner.__self__]
    own = getattr(owner, "__dict__", None)
    if not isinstance(own, dict) or isinstance(owner, torch.nn.Module | type | types.ModuleType):
        return []
    return [v for name, v in own.items() if name in _NAMES or _may_draw(v)]


def _has_parts(value):
    return _is_generator(value) or (
        hasattr(value, "__dict__") and not isinstance(value, torch.Tensor)
    )


def _may_draw(value):
    if isinstance(value, list | tuple):
        return 0 < len(value) <= PARTS_MAX and _may_draw(value[0])
    return _is_generator(value) or isinstance(value, DataLoader | Dataset | Sampler)


@contextlib.contextmanager
def kept_random(*sources):
    """In the block random numbers may be drawn; after it their states are as before, those of the
    generators of loaders and data sets among the `sources`, too."""
    restore = keep_random(*sources)
    try:
        yield
    finally:
        restore()
