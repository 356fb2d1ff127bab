"""Tensors in what programs pass around: tuples, lists, mappings of them."""

import torch


def tensors_of(value):
    """All tensors in it, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_of(item)
    elif hasattr(value, "values") and hasattr(value, "keys"):
        for item in value.values():
            yield from tensors_of(item)


def move(value, device):
    """The same with its tensors on the device; what has a `to` of its own moves itself."""
    if isinstance(value, torch.Tensor) or hasattr(value, "to"):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(move(item, device) for item in value))
    if isinstance(value, tuple | list):
        return type(value)(move(item, device) for item in value)
    if isinstance(value, dict):
        return {key: move(item, device) for key, item in value.items()}
    return value
