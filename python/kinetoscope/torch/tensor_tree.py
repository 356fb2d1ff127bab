"""Tensors in what programs pass around: tuples, lists, mappings, dataclasses of them."""

import copy
import dataclasses

import torch


def tensors_of(value):
    """All tensors in it, in order."""
    yield from _tensors(value, ())


def _tensors(value, above):
    """`above`: the dataclasses it is in; they may point back to one that holds them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item, above)
    elif _is_mapping(value):
        for item in value.values():
            yield from _tensors(item, above)
    elif _is_record(value) and not any(value is one for one in above):
        for _, item in _fields(value):
            yield from _tensors(item, (*above, value))


def is_tensor(value):
    """Whether it is a leaf of the usual tree."""
    return isinstance(value, torch.Tensor)


def mapped(change, value, is_leaf=is_tensor):
    """The same with change(tensor) in place of each tensor. Containers are made anew, each of its
    own class, so that nobody else's are changed; what is none stays. `is_leaf`: what is handed to
    `change` as a whole."""
    return _mapped(change, value, is_leaf, ())


def _mapped(change, value, is_leaf, above):
    if is_leaf(value):
        return change(value)
    if isinstance(value, tuple | list):
        return _with_items(value, [_mapped(change, item, is_leaf, above) for item in value])
    if _is_mapping(value):
        pairs = value.items()
        return _with_pairs(value, {k: _mapped(change, v, is_leaf, above) for k, v in pairs})
    if _is_record(value) and not any(value is one for one in above):
        above = (*above, value)
        return _with_fields(
            value, {k: _mapped(change, v, is_leaf, above) for k, v in _fields(value)}
        )
    return value


def move(value, device, is_pinned=False):
    """The same with its tensors on the device; what has a `to` of its own moves itself. is_pinned:
    a copy of a tensor need not be waited for."""

    def to(one):
        if is_pinned and is_tensor(one):
            return one.to(device, non_blocking=True)
        return one.to(device)

    return mapped(to, value, lambda one: hasattr(one, "to"))


def _is_mapping(value):
    if isinstance(value, dict):
        return True
    if isinstance(value, torch.nn.Module | type):
        return False
    # Those of libraries need not be a Mapping.
    methods = ("keys", "values", "items", "__getitem__")
    return all(callable(getattr(value, name, None)) for name in methods)


def _is_record(value):
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _fields(record):
    names = (field.name for field in dataclasses.fields(record))
    return [(name, getattr(record, name)) for name in names if hasattr(record, name)]


def _with_items(value, items):
    kind = type(value)
    if kind in (tuple, list):
        return kind(items)
    if isinstance(value, list):
        made = copy.copy(value)
        made[:] = items
        return made
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value  # as a torch.Size, in which there never is a tensor
    if hasattr(kind, "n_sequence_fields"):  # what torch.max and others return
        return kind(items)
    made = tuple.__new__(kind, items)  # whatever the arguments of its own __new__ are
    if hasattr(value, "__dict__"):
        vars(made).update(vars(value))
    return made


def _with_pairs(value, pairs):
    if type(value) is dict:
        return pairs
    try:
        made = copy.copy(value)
        for key, item in pairs.items():
            made[key] = item
    except Exception:  # one that can only be read, or makes copies in a way of its own
        return pairs
    return made


def _with_fields(record, pairs):
    made = copy.copy(record)
    for name, item in pairs.items():
        object.__setattr__(made, name, item)  # a frozen one, too
    return made
