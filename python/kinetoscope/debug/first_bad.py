"""The first tensor that is not finite, in the order in which things are computed.

A forward is made again with the inputs, random numbers and precision it had, every operator
looked at. Parameters are read only and buffers are copies, so what the program has stays as it is;
but what a module does beside tensors, it does once more.
"""

import contextlib
import os
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kinetoscope.torch.tensor_tree import tensors_of

# Where these give an infinity it was asked for, as in a mask; empty memory holds anything.
_FILLS = ("full", "fill", "masked_fill", "where", "scalar_tensor", "lift", "empty", "new_")


def is_float(tensor):
    return isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and not tensor.is_meta


def bad_count(tensor):
    """(NaNs, infinities) of a tensor; waits for its device."""
    tensor = tensor.detach()
    nans = int(tensor.isnan().sum())
    return nans, int((~tensor.isfinite()).sum()) - nans


def describe(tensor):
    """What is not finite in a tensor: {nan, inf, count, share, dtype, shape}; None: nothing is."""
    if not is_float(tensor) or tensor.numel() == 0:
        return None
    nans, infinities = bad_count(tensor)
    if nans + infinities == 0:
        return None
    return {
        "nan": nans,
        "inf": infinities,
        "count": nans + infinities,
        "share": (nans + infinities) / tensor.numel(),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
    }


def bad_input(call):
    """The first input of a call that is not finite, or None."""
    for number, tensor in enumerate(tensors_of([*call.args, call.kwargs])):
        found = describe(tensor)
        if found is not None:
            rows = bad_rows(tensor)
            return {"cause": "input", "input": number, "samples": rows[:10], **found}
    return None


def bad_parameter(model):
    """The first parameter that is not finite, or None."""
    for name, parameter in model.named_parameters():
        found = describe(parameter)
        if found is not None:
            return {"cause": "parameter", "parameter": name, **found}
    return None


def bad_rows(tensor):
    if tensor.ndim == 0:
        return [0]
    flat = tensor.detach().reshape(tensor.shape[0], -1)
    return torch.nonzero(~flat.isfinite().all(dim=1)).flatten().tolist()


def can_repeat(model):
    """A forward that talks to other ranks would wait for them."""
    for module in model.modules():
        home = type(module).__module__
        if home.startswith("torch.distributed") or isinstance(module, torch.nn.SyncBatchNorm):
            return False
    return True


def repeat(call, model):
    """Makes a call again. Returns (what was bad first, or None; names of modules in the order of
    their calls)."""
    watch = _Watch(model)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with _as_it_was(call, model), watch.modules_named(), watch:
        torch.func.functional_call(model, buffers, call.args, call.kwargs)
    return watch.verdict(), watch.order


@contextlib.contextmanager
def _as_it_was(call, model):
    now = random_states()
    modes = [(module, module.training) for module in model.modules()]
    set_random_states(call.random or now)
    autocast = contextlib.nullcontext()
    if call.autocast is not None:
        autocast = torch.autocast(*call.autocast)
    try:
        with torch.set_grad_enabled(call.has_grad), autocast:
            yield
    finally:
        set_random_states(now)
        for module, mode in modes:
            module.training = mode


def random_states():
    """States of torch's generators: reading them waits for no GPU."""
    gpu = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
    return [torch.get_rng_state(), gpu]


def set_random_states(states):
    torch.set_rng_state(states[0])
    if states[1] is not None:
        torch.cuda.set_rng_state(states[1])


class _Watch(TorchDispatchMode):
    """Looks at what each operator takes and gives."""

    def __init__(self, model):
        super().__init__()
        self._names = {id(module): name for name, module in model.named_modules()}
        self._open = []
        self.order = []
        self._first_inf = None
        self._first_nan = None

    @contextlib.contextmanager
    def modules_named(self):
        def enter(module, args):
            self._open.append(module)
            self.order.append(self._names.get(id(module), ""))

        def leave(module, args, output):
            if self._open:
                self._open.pop()

        hooks = torch.nn.modules.module
        before = hooks.register_module_forward_pre_hook(enter)
        after = hooks.register_module_forward_hook(leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self._first_nan is not None:
            return function(*args, **kwargs)
        # Counted before: an operator in place changes what it takes.
        inputs = [bad_count(t) for t in tensors_of([args, kwargs]) if is_float(t)]
        result = function(*args, **kwargs)
        for tensor in tensors_of(result):
            if is_float(tensor):
                self._see(function, inputs, tensor)
        return result

    def _see(self, function, inputs, tensor):
        nans, infinities = bad_count(tensor)
        if nans + infinities == 0:
            return
        name = function.name().removeprefix("aten::").split(".")[0]
        if name.lstrip("_").startswith(_FILLS):
            return
        had_nan = any(n for n, _ in inputs)
        had_inf = any(i for _, i in inputs)
        if nans and not had_nan and self._first_nan is None:
            self._first_nan = {**self._place(name, tensor), "had_inf": had_inf}
        elif infinities and not had_inf and not had_nan and self._first_inf is None:
            self._first_inf = self._place(name, tensor)

    def _place(self, operator, tensor):
        module = self._open[-1] if self._open else None
        return {
            "cause": "forward",
            "operator": operator,
            "module": self._names.get(id(module), ""),
            "module_class": type(module).__name__,
            "line": _user_line(),
            **describe(tensor),
        }

    def verdict(self):
        """A NaN that comes of an infinity has its cause where that was made."""
        nan = self._first_nan
        if nan is not None and nan.pop("had_inf") and self._first_inf is not None:
            return self._first_inf
        return nan or self._first_inf


def _user_line():
    """file:line of the innermost frame outside of torch and of this package."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package not in ("torch", "kinetoscope") and not path.startswith("<"):
            return f"{os.path.basename(path)}:{frame.f_lineno}"
        frame = frame.f_back
    return None
