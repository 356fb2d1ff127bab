"""Activation checkpointing of named modules: what their forward keeps is made again in backward."""

import torch
from torch.utils.checkpoint import checkpoint

from kinetoscope.tune.covered_method import cover, uncover

BLOCKS_MIN = 2


def blocks_of(model):
    """Names of the blocks of a model: children of the list or sequence that holds most parameters
    (of them those that have any, or children); [] where a model has no such list."""
    found = [(_parameters(m), -depth, name, m) for name, m, depth in _sequences(model)]
    if not found:
        return []
    *_, name, sequence = max(found, key=lambda entry: entry[:2])
    children = [(f"{name}.{key}".lstrip("."), child) for key, child in sequence.named_children()]
    return [name for name, child in children if _parameters(child) > 0]


def _sequences(model):
    for name, module in model.named_modules():
        is_sequence = isinstance(module, torch.nn.ModuleList | torch.nn.Sequential)
        if is_sequence and sum(_parameters(child) > 0 for child in module.children()) >= BLOCKS_MIN:
            yield name, module, name.count(".")


def _parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def kind_of(block):
    """What two blocks have in common that cost the same: their class and shapes."""
    shapes = tuple((name, tuple(p.shape)) for name, p in block.named_parameters())
    return type(block).__qualname__, shapes


def put_on(model, names):
    """Checkpoints the modules of a model that have these names, while gradients are needed."""
    for name in names:
        cover(model.get_submodule(name), "forward", _forward)


def take_off(model, names):
    """Undoes put_on."""
    for name in names:
        uncover(model.get_submodule(name), "forward")


def _forward(module, forward, *args, **kwargs):
    """Around a module's forward."""
    if not (module.training and torch.is_grad_enabled()):
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)


def code(names):
    """Lines that do the same in the program."""
    return [
        "import functools",
        "from torch.utils.checkpoint import checkpoint",
        f"for name in {list(names)!r}:",
        "    block = model.get_submodule(name)",
        "    block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)",
    ]
