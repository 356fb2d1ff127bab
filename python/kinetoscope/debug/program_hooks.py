"""Tells a listener what a training does: batches, outermost forwards, backwards, optimizer steps.

Without a model a hook on all modules stays until the first step is over, to meet the outermost
ones; from then on only those have hooks, so other modules pay nothing. All of it goes away again.
The listener never raises.
"""

import functools
import threading
import weakref
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch

ROOTS_MAX = 8


@dataclass
class Call:
    """One call of an outermost module, with what it takes to make it again."""

    module: Any  # a weak reference
    args: tuple
    kwargs: dict
    is_training: bool
    has_grad: bool
    random: list = field(default_factory=list)
    autocast: Any = None  # None, or (device type, dtype)
    is_complete: bool = True  # False: keyword arguments are not known


class ProgramHooks:
    def __init__(self, listener, model=None):
        self._listener = listener
        self._model = model
        self._handles = []
        self._search = []
        self._roots = weakref.WeakKeyDictionary()
        self._local = threading.local()
        self._patches = []
        self._in_scaler = None

    def install(self):
        if self._model is not None:
            self._watch(self._model)
        else:
            hooks = import_module("torch.nn.modules.module")
            self._search = [
                hooks.register_module_forward_pre_hook(self._enter_any),
                hooks.register_module_forward_hook(self._leave_any, always_call=True),
            ]
        self._hook_optimizers()
        self._patch(import_module("torch.autograd"), "backward", self._make_backward)
        self._patch(import_module("torch.amp.grad_scaler").GradScaler, "step", self._make_scaler)
        loaders = import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
        self._patch(loaders, "__next__", self._make_next)
        for name in ("_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"):
            loaders = getattr(import_module("torch.utils.data.dataloader"), name)
            self._patch(loaders, "_next_index", self._make_next_index)

    def watch(self, model):
        """A model that was not known at the start."""
        self._watch(model)

    def remove(self):
        """A wrapper that others have wrapped meanwhile stays, and only hands on."""
        for handle in [*self._handles, *self._search]:
            handle.remove()
        self._handles, self._search = [], []
        for owner, name, before, wrapper, is_own in reversed(self._patches):
            wrapper.kinetoscope_is_on = False
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, before) if is_own else delattr(owner, name)
        self._patches = []

    # ---------------------------------------------------------------- modules

    def _watch(self, module):
        if module in self._roots or len(self._roots) >= ROOTS_MAX:
            return
        self._roots[module] = True
        enter = module.register_forward_pre_hook(self._enter_root, with_kwargs=True)
        self._handles.append(enter)
        self._handles.append(module.register_forward_hook(self._leave_root, always_call=True))

    def _enter_any(self, module, args):
        """Outermost ones get hooks of their own, which torch calls for this call already."""
        if torch.compiler.is_compiling():
            return
        depth = getattr(self._local, "depth", 0)
        self._local.depth = depth + 1
        if depth == 0 and not isinstance(module, torch.jit.ScriptModule):
            self._watch(module)
            self._begin_call(module, args, {}, is_complete=False)

    def _leave_any(self, module, args, output):
        if not torch.compiler.is_compiling():
            self._local.depth = max(0, getattr(self._local, "depth", 0) - 1)

    def _enter_root(self, module, args, kwargs):
        if not torch.compiler.is_compiling():
            self._begin_call(module, args, kwargs)

    def _begin_call(self, module, args, kwargs, is_complete=True):
        if getattr(self._local, "root", None) is not None:
            return
        call = Call(weakref.ref(module), args, kwargs, module.training, torch.is_grad_enabled())
        call.is_complete = is_complete
        self._local.root = call
        self._listener.tell("call_began", module, call)

    def _leave_root(self, module, args, output):
        call = getattr(self._local, "root", None)
        if torch.compiler.is_compiling() or call is None or call.module() is not module:
            return
        self._local.root = None
        self._listener.tell("call_ended", module, call, output)

    def _end_search(self):
        for handle in self._search:
            handle.remove()
        self._search = []

    # ---------------------------------------------------------------- steps

    def _hook_optimizers(self):
        optimizers = import_module("torch.optim.optimizer")
        self._handles.append(optimizers.register_optimizer_step_pre_hook(self._before_step))
        self._handles.append(optimizers.register_optimizer_step_post_hook(self._after_step))

    def _before_step(self, optimizer, args, kwargs):
        if self._is_plain() and not _has_closure(args, kwargs):
            self._listener.tell("step_begins", optimizer, None)

    def _after_step(self, optimizer, args, kwargs):
        if not self._is_plain():
            return
        if _has_closure(args, kwargs):  # its gradients are made inside of the step
            self._listener.tell("step_begins", optimizer, None)
        self._end_step(optimizer, None)

    def _is_plain(self):
        return self._in_scaler is None and not torch.compiler.is_compiling()

    def _end_step(self, optimizer, scaler):
        self._end_search()
        self._listener.tell("step_ended", optimizer, scaler)

    def _make_scaler(self, step, switch):
        hooks = self

        def watched(scaler, optimizer, *args, **kwargs):
            if not switch.kinetoscope_is_on or not scaler.is_enabled():
                return step(scaler, optimizer, *args, **kwargs)
            hooks._in_scaler = scaler
            hooks._listener.tell("step_begins", optimizer, scaler)
            try:
                result = step(scaler, optimizer, *args, **kwargs)
            finally:
                hooks._in_scaler = None
            hooks._end_step(optimizer, scaler)
            return result

        return watched

    # ---------------------------------------------------------------- what is patched

    def _patch(self, owner, name, make):
        before = getattr(owner, name)
        is_own = name in vars(owner)
        switch = _Wrapper()
        wrapper = functools.wraps(before)(make(before, switch))
        switch.wrapper = wrapper
        wrapper.kinetoscope_is_on = True
        self._patches.append((owner, name, before, wrapper, is_own))
        setattr(owner, name, wrapper)

    def _make_backward(self, backward, switch):
        listener = self._listener

        def watched(tensors, *args, **kwargs):
            if switch.kinetoscope_is_on and not torch.compiler.is_compiling():
                listener.tell("backward", tensors)
            return backward(tensors, *args, **kwargs)

        return watched

    def _make_next(self, next_batch, switch):
        listener = self._listener

        def watched(iterator):
            batch = next_batch(iterator)
            if switch.kinetoscope_is_on:
                listener.tell("batch", batch, _taken_indices(iterator))
            return batch

        return watched

    def _make_next_index(self, next_index, switch):
        def watched(iterator):
            is_first = iterator._num_yielded == 0 and getattr(iterator, "_send_idx", 0) == 0
            index = next_index(iterator)
            if switch.kinetoscope_is_on:
                _keep_index(iterator, index, is_first)
            return index

        return watched


class _Wrapper:
    wrapper = None

    @property
    def kinetoscope_is_on(self):
        return self.wrapper.kinetoscope_is_on


def _has_closure(args, kwargs):
    """torch hands over the optimizer itself first."""
    return any(arg is not None for arg in args[1:]) or kwargs.get("closure") is not None


def _keep_index(iterator, index, is_first):
    """Batches come in the order in which their indices are asked for. Where they do not, or where
    the first ones were not heard, none is known."""
    kept = iterator.__dict__
    if is_first:
        kept["_kinetoscope_indices"] = [] if getattr(iterator, "_in_order", True) else None
    if kept.get("_kinetoscope_indices") is not None:
        kept["_kinetoscope_indices"].append(index)


def _taken_indices(iterator):
    """Indices of the samples of the batch that was taken, or None."""
    asked = iterator.__dict__.get("_kinetoscope_indices")
    if not asked:
        return None
    index = asked.pop(0)
    return list(index) if isinstance(index, tuple | list) else None
