"""A copy of a model on which things may be tried, and why there is none."""

import copy
import dis
import functools
import types

import torch

from kinetoscope.tune.covered_method import Covered

_WRAPPERS = {"DistributedDataParallel", "FullyShardedDataParallel", "DataParallel", "FSDPModule"}


class Refusal(Exception):
    """Nothing is tried on this model; the message says why."""


class CannotCopy(Refusal, TypeError):
    """There is no copy, and nothing is tried on the original."""


class SeveralProcesses(Refusal, ValueError):
    """It is one of several processes, or replicas."""


def refuse_wrapped(model):
    """SeveralProcesses: the model, or a part of it, is wrapped for several processes."""
    for name, module in model.named_modules():
        kinds = _WRAPPERS.intersection(kind.__name__ for kind in type(module).__mro__)
        if kinds:
            where = f" (module {name})" if name else ""
            raise SeveralProcesses(
                f"processes of a {min(kinds)}{where} must do the same, and timing decides in each "
                "by itself: tune the module before it is wrapped"
            )


def copied(model):
    """A deep copy. CannotCopy says why there is none."""
    try:
        twin = copy.deepcopy(model)
        _follow(model, twin)
    except CannotCopy:
        raise
    except Exception as failure:
        reason = f"{type(failure).__name__}: {failure}"
        raise CannotCopy(
            f"this model cannot be copied, and nothing is tried on the original: {reason}"
        ) from failure
    return twin


def _follow(model, twin):
    """A forward that an instance has of its own is often a function around that of its class.
    Functions are not copied, and it would go on calling the original model."""
    pairs = list(zip(model.modules(), twin.modules(), strict=True))
    rebound = _Rebound(pairs)
    for _, module in pairs:
        own = vars(module).get("forward")
        if own is not None:
            vars(module)["forward"] = rebound.value(own)


class _Rebound:
    """Functions and methods made again, with the copies where they had the originals."""

    def __init__(self, pairs):
        self._twins = {id(original): twin for original, twin in pairs}
        self._made = {}  # id of a function -> what became of it

    def value(self, value):
        """What stands for it in the copy: itself, unless it has to do with the model."""
        if isinstance(value, torch.nn.Module):
            return self._twins.get(id(value), value)
        if isinstance(value, types.MethodType):
            function, owner = self.value(value.__func__), self.value(value.__self__)
            is_same = function is value.__func__ and owner is value.__self__
            return value if is_same else types.MethodType(function, owner)
        if isinstance(value, functools.partial):
            words = {key: self.value(item) for key, item in value.keywords.items()}
            return functools.partial(
                self.value(value.func), *(self.value(item) for item in value.args), **words
            )
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, Covered):  # which is a copy already
            value.own = self.value(value.own)
        return value

    def _function(self, function):
        if id(function) not in self._made:
            self._made[id(function)] = function  # of one that calls itself
            self._refuse_globals(function)
            self._made[id(function)] = self._remade(function)
        return self._made[id(function)]

    def _remade(self, function):
        cells = [self._cell(cell) for cell in function.__closure__ or ()]
        defaults = tuple(self.value(item) for item in function.__defaults__ or ())
        words = {k: self.value(item) for k, item in (function.__kwdefaults__ or {}).items()}
        kept = (*(function.__closure__ or ()), *(function.__defaults__ or ()))
        kept = (*kept, *(function.__kwdefaults__ or {}).values())
        made = (*cells, *defaults, *words.values())
        if all(new is old for new, old in zip(made, kept, strict=True)):
            return function
        twin = types.FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            defaults or None,
            tuple(cells) or None,
        )
        twin.__kwdefaults__ = words or None
        return functools.update_wrapper(twin, function, updated=())

    def _cell(self, cell):
        try:
            contents = cell.cell_contents
        except ValueError:  # nothing is in it yet
            return cell
        value = self.value(contents)
        return cell if value is contents else types.CellType(value)

    def _refuse_globals(self, function):
        """A global variable is shared with the program: there is no other one for the copy."""
        for name in _global_names(function.__code__):
            value = function.__globals__.get(name)
            owner = getattr(value, "__self__", value)
            if isinstance(owner, torch.nn.Module) and id(owner) in self._twins:
                raise CannotCopy(
                    f"this model cannot be copied: its forward was replaced by a function that "
                    f"calls the original one by the global variable {name}"
                )


def _global_names(code):
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)
