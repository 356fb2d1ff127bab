"""What tests of tuning share: models that are quick or right in one setting only, and what must be
as it was after anything was tried."""

import random
import time

import torch

nap = time.sleep


class CountedTime:
    """A clock that naps alone move, each by a few percent more or less than it should: what other
    work on the machine takes does not count."""

    def __init__(self):
        self.now_ns = 0
        self._noise = random.Random(3)

    def perf_counter_ns(self):
        self.now_ns += 1000
        return self.now_ns

    def sleep(self, seconds):
        self.now_ns += int(seconds * 1e9 * self._noise.lognormvariate(0, 0.02))


class Napping(torch.nn.Module):
    """Sleeps longer in float32 than in half precision, where its results are `factor` times as
    large."""

    def __init__(self, full_ms=24.0, half_ms=2.0, factor=1.0):
        super().__init__()
        self.inner = torch.nn.Linear(16, 8)
        self.full_s, self.half_s, self.factor = full_ms / 1e3, half_ms / 1e3, factor

    def forward(self, x):
        y = self.inner(x)
        is_half = y.dtype != torch.float32
        nap(self.half_s if is_half else self.full_s)
        return y * self.factor if is_half else y


def mlp(width=64, layers=3):
    torch.manual_seed(5)
    blocks = [
        torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(layers)
    ]
    return torch.nn.Sequential(*blocks, torch.nn.Linear(width, 4))


def images():
    torch.manual_seed(5)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 4),
    )


def batch(width=64, size=8):
    torch.manual_seed(6)
    return torch.randn(size, width), torch.arange(size) % 4


def state(model):
    """All of a program that trying must leave alone."""
    return {
        "tensors": {k: v.tolist() for k, v in model.state_dict().items()},
        "gradients": [None if p.grad is None else p.grad.tolist() for p in model.parameters()],
        "modes": [m.training for m in model.modules()],
        "forwards": [vars(m).get("forward") for m in model.modules()],
        "strides": [p.stride() for p in model.parameters()],
        "random": (torch.get_rng_state().tolist(), random.getstate()),
        "switches": (
            torch.get_num_threads(),
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
            torch.is_grad_enabled(),
            torch.backends.cuda.flash_sdp_enabled(),
        ),
    }
