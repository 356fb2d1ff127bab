"""Puts back what training steps change: for profiling that must leave a program as it was."""

import contextlib
import copy
import random
import sys

import torch


@contextlib.contextmanager
def kept_state(model, optimizer=None, loader=None):
    """In the block the model may train; after it, and after an exception, all is as before:
    parameters, buffers, gradients, modes, optimizer, random states.

    Costs one copy of parameters, buffers, gradients and the optimizer's state in their own memory.
    """
    restores = [_keep_tensors(model), _keep_modes(model), _keep_random(loader)]
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


def _keep_random(loader):
    python, cpu = random.getstate(), torch.get_rng_state()
    gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    numpy = sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy is not None else None
    generators = [(g, g.get_state()) for g in _generators(loader)]

    def restore():
        random.setstate(python)
        torch.set_rng_state(cpu)
        if gpu is not None:
            torch.cuda.set_rng_state_all(gpu)
        if of_numpy is not None:
            numpy.random.set_state(of_numpy)
        for generator, state in generators:
            generator.set_state(state)

    return restore


def _generators(loader):
    """Those that a loader and its sampler draw from; usually there are none."""
    owners = (loader, getattr(loader, "sampler", None))
    found = (getattr(owner, "generator", None) for owner in owners)
    return {id(g): g for g in found if isinstance(g, torch.Generator)}.values()


@contextlib.contextmanager
def kept_random(loader=None):
    """In the block random numbers may be drawn; after it their states are as before."""
    restore = _keep_random(loader)
    try:
        yield
    finally:
        restore()
