"""The numbers of a run by which `kscope tune` tells whether a setting changes results: the losses
that `backward` is called on, or sums of what a model without losses gives, and norms of gradients.

They are kept as tensors where they are and read at the end of a block, so that no step waits. Only
the first of each are kept: later ones drift apart in any two runs that round differently.
"""

import functools
import math
import threading
from importlib import import_module

KEPT_MAX = 24  # of each kind
LEFT_OUT = float("-inf")  # stands for the norm of a step that a loss scale left out


class RunNumbers:
    def __init__(self, torch):
        self._torch = torch
        self._kept = {"loss": [], "norm": [], "output": []}
        self._counts = dict.fromkeys(self._kept, 0)
        self._local = threading.local()
        self._has_scale = False

    def install(self, has_scale=False):
        """`has_scale`: a loss scale leaves out the steps whose gradients are not finite."""
        torch, self._has_scale = self._torch, has_scale
        backward = torch.Tensor.backward

        @functools.wraps(backward)
        def watched(loss, gradient=None, *args, **kwargs):
            if getattr(self._local, "is_inside", False):
                return backward(loss, gradient, *args, **kwargs)
            self._local.is_inside = True
            try:
                if gradient is None and loss.numel() == 1:
                    self._keep("loss", loss)
                return backward(loss, gradient, *args, **kwargs)
            finally:
                self._local.is_inside = False

        torch.Tensor.backward = watched
        optimizer_module = import_module("torch.optim.optimizer")
        register = getattr(optimizer_module, "register_optimizer_step_pre_hook", None)
        if register is not None:
            register(self._before_step)

    def see_output(self, output):
        """What an outermost module gave; only sums of it are kept, in a program without losses."""
        if self._counts["output"] >= KEPT_MAX or self._counts["loss"]:
            return
        from kinetoscope.torch.tensor_tree import tensors_of

        with self._torch.no_grad():
            floats = [t for t in tensors_of(output) if t.is_floating_point()]
            if floats:
                sums = [self._weighted_mean(t.detach().float().flatten()) for t in floats]
                self._keep("output", self._torch.stack([s.to(sums[0].device) for s in sums]).sum())

    def _weighted_mean(self, values):
        """Weights differ from place to place, so that numbers in another order are other ones."""
        places = self._torch.arange(values.numel(), device=values.device)
        return (values * (1.5 + places.cos())).mean()

    def drain(self):
        """(kind, number as text) of all that were kept since the last time."""
        kept, self._kept = self._kept, {kind: [] for kind in self._kept}
        numbers = [(kind, float(value)) for kind, values in kept.items() for value in values]
        return [(kind, self._told(kind, number).hex()) for kind, number in numbers]

    def _told(self, kind, number):
        is_left_out = self._has_scale and kind == "norm" and not math.isfinite(number)
        return LEFT_OUT if is_left_out else number

    def _keep(self, kind, tensor):
        if self._counts[kind] < KEPT_MAX:
            self._counts[kind] += 1
            self._kept[kind].append(tensor.detach().clone())

    def _before_step(self, optimizer, args, kwargs):
        if self._counts["norm"] < KEPT_MAX:
            parameters = (p for group in optimizer.param_groups for p in group["params"])
            gradients = [p.grad for p in parameters if p.grad is not None]
            dense = [g.detach() for g in gradients if not g.is_sparse]
            if dense:
                with self._torch.no_grad():
                    self._keep("norm", self._norm(dense))

    def _norm(self, gradients):
        norms = self._torch._foreach_norm(gradients)
        return self._torch.stack([n.float().to(norms[0].device) for n in norms]).norm()
