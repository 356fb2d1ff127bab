"""A loss scale for a script that has none: what fp16 needs so that small gradients do not vanish.

`backward` multiplies the loss and divides the gradients again before it returns, so that whatever
the script does with gradients (clipping, logging, accumulating) sees them as they would be. A step
with gradients that are not finite is left out by taking the gradients away, and the scale is
halved, as torch's GradScaler does it with its usual numbers.
"""

SCALE_FIRST = 65536.0
STEPS_TO_GROW = 2000


class LossScaler:
    def __init__(self, torch, refuse):
        self._torch = torch
        self._refuse = refuse
        self._scale = SCALE_FIRST
        self._good_steps = 0
        self._found = {}  # device -> a tensor that is 1 when a gradient was not finite
        self._parameters = []
        self.skipped_steps = 0

    def backward(self, loss, run_backward):
        """Runs the backward pass of a scalar loss; `run_backward` takes what to start from."""
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
        known = {id(p) for p in self._parameters}
        for group in optimizer.param_groups:
            self._parameters += [p for p in group["params"] if id(p) not in known]

    def _gradients(self):
        return [p.grad for p in self._parameters if p.grad is not None]

    def _unscale(self, gradients):
        by_device = {}
        for gradient in gradients:
            by_device.setdefault((gradient.device, gradient.dtype), []).append(gradient)
        for (device, _), group in by_device.items():
            ones = self._found.setdefault(device, self._torch.zeros(1, device=device))
            inverse = self._torch.full((1,), 1.0 / self._scale, device=device)
            self._torch._amp_foreach_non_finite_check_and_unscale_(group, ones, inverse)
