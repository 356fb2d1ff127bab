"""A loss scale for a script that has none: what fp16 needs so that small gradients do not vanish.

`backward` multiplies the loss and divides the gradients again before it returns, so that whatever
the script does with gradients (clipping, logging, accumulating) sees them as they would be. A step
with gradients that are not finite is left out by taking the gradients away, and the scale is
halved, as torch's GradScaler does it with its usual numbers.

Divided are the gradients of all parameters that optimizers were made with; without any nothing is
scaled. Other tensors that a backward pass leaves gradients on have them scaled.
"""

import functools
import threading
import weakref
from importlib import import_module

SCALE_FIRST = 65536.0
STEPS_TO_GROW = 2000


class LossScaler:
    def __init__(self, torch):
        self._torch = torch
        self._scale = SCALE_FIRST
        self._good_steps = 0
        self._found = {}  # device -> a tensor that is 1 when a gradient was not finite
        self._parameters = {}  # id -> reference
        self._local = threading.local()
        self._has_hook = False
        self.skipped_steps = 0

    def install(self):
        torch = self._torch
        optimizer_class = torch.optim.Optimizer
        add, backward = optimizer_class.add_param_group, torch.Tensor.backward

        @functools.wraps(add)
        def watched(optimizer, *args, **kwargs):
            result = add(optimizer, *args, **kwargs)
            self.watch(optimizer)
            return result

        @functools.wraps(backward)
        def scaled(loss, gradient=None, *args, **kwargs):
            is_plain = gradient is None and loss.numel() == 1 and self._parameters
            if not is_plain or getattr(self._local, "is_inside", False):
                return backward(loss, gradient, *args, **kwargs)
            self._local.is_inside = True
            try:
                return self.backward(loss, lambda x: backward(x, gradient, *args, **kwargs))
            finally:
                self._local.is_inside = False

        optimizer_class.add_param_group = watched
        torch.Tensor.backward = scaled

    def backward(self, loss, run_backward):
        """Runs the backward pass of a scalar loss; `run_backward` takes what to start from."""
        if not self._has_hook:  # the last of all hooks: those before it see the gradients
            self._has_hook = True
            optimizer_module = import_module("torch.optim.optimizer")
            optimizer_module.register_optimizer_step_pre_hook(
                lambda optimizer, args, kwargs: self.before_step(optimizer)
            )
        before = self._gradients()
        if before:  # accumulated ones: a power of two changes no digit
            self._torch._foreach_mul_(before, self._scale)
        run_backward(loss * self._scale)
        self._unscale(self._gradients())

    def before_step(self, optimizer):
        """In the hook before an optimizer's step: without gradients it does nothing."""
        if not any(found.item() for found in self._found.values()):
            self._good_steps += 1
            if self._good_steps >= STEPS_TO_GROW:
                self._good_steps = 0
                self._scale *= 2
            return
        self._good_steps = 0
        self.skipped_steps += 1
        self._scale /= 2
        self._found = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def watch(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._parameters.setdefault(id(parameter), weakref.ref(parameter))

    def _gradients(self):
        found = [(key, reference()) for key, reference in self._parameters.items()]
        for key, parameter in found:
            if parameter is None:
                del self._parameters[key]
        return [p.grad for _, p in found if p is not None and p.grad is not None]

    def _unscale(self, gradients):
        by_device = {}
        for gradient in gradients:
            by_device.setdefault((gradient.device, gradient.dtype), []).append(gradient)
        for (device, _), group in by_device.items():
            ones = self._found.setdefault(device, self._torch.zeros(1, device=device))
            inverse = self._torch.full((1,), 1.0 / self._scale, device=device)
            self._torch._amp_foreach_non_finite_check_and_unscale_(group, ones, inverse)
