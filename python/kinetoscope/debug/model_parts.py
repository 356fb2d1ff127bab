"""A model without what wraps it, and those of its modules that can have hooks."""

import torch


def inner_model(model):
    """Without wrappers that compile it, or talk to other ranks: names are then the program's."""
    while True:
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            model = model.module
        elif "_orig_mod" in model._modules:
            model = model._orig_mod
        else:
            return model


def parts_of(model):
    """(name, module) of all modules that can have hooks. In a compiled region there are none: a
    hook there would have it compiled anew."""
    if "_orig_mod" in model._modules:
        return
    yield from _parts(inner_model(model), "")


def _parts(module, name):
    if getattr(module, "_compiled_call_impl", None) is not None or "_orig_mod" in module._modules:
        return
    if isinstance(module, torch.jit.ScriptModule):
        return
    yield name, module
    for key, child in module.named_children():
        yield from _parts(child, f"{name}.{key}" if name else key)
