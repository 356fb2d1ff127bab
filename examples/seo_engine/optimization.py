"""Optimization: AdamW, the learning-rate schedule, mixed precision and clipping as one step."""

import contextlib
from typing import Any

import torch
from torch import nn
from transformers import get_cosine_schedule_with_warmup

from .config import SEOConfig

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def precision_of(config: SEOConfig, device: torch.device) -> torch.dtype | None:
    """What matrix products are computed in; None: float32.

    "auto" is bfloat16, or float16 on a GPU that is too old for it; on a CPU float32, because few
    have instructions for shorter numbers and without them they are slower.
    """
    if not config.use_mixed_precision:
        return None
    if config.mixed_precision_dtype != "auto":
        return DTYPES[config.mixed_precision_dtype]
    if device.type != "cuda":
        return None
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


class Optimization:
    """Trains the parameters of a model. `schedule` is there once plan() was called."""

    def __init__(self, model: nn.Module, config: SEOConfig, device: torch.device) -> None:
        self._config = config
        self._device_type = device.type
        self._parameters = list(model.parameters())
        self.optimizer = torch.optim.AdamW(
            self._parameters, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
        )
        self.set_precision(precision_of(config, device))
        self.schedule: torch.optim.lr_scheduler.LambdaLR | None = None

    def set_precision(self, dtype: torch.dtype | None) -> None:
        """What matrix products are computed in from now on; None: float32."""
        self.dtype = dtype
        # Gradients in float16 would become zero unless the loss is scaled up.
        is_scaled = dtype == torch.float16
        self.scaler = torch.amp.GradScaler(self._device_type, enabled=is_scaled)

    def plan(self, steps: int) -> None:
        """Lays a schedule over so many steps: the rate rises, then falls to 0 as a cosine does."""
        warmup = round(steps * self._config.warmup_share)
        self.schedule = get_cosine_schedule_with_warmup(self.optimizer, warmup, steps)

    @property
    def learning_rate(self) -> float:
        """The rate of the next step."""
        return self.optimizer.param_groups[0]["lr"]

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """For the forward pass."""
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self._device_type, self.dtype)

    def backward(self, loss: torch.Tensor) -> None:
        """Gradients of a loss, scaled where that is needed."""
        self.scaler.scale(loss).backward()

    def step(self) -> torch.Tensor:
        """Clips, changes the parameters, forgets gradients; returns their norm before clipping."""
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self._parameters, self._config.gradient_norm_max)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        # A smaller scale says that the step was left out: its gradients had overflown.
        if self.schedule is not None and self.scaler.get_scale() >= scale:
            self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "schedule": None if self.schedule is None else self.schedule.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], steps: int) -> None:
        """Goes on from a checkpoint of a training that was planned for so many steps."""
        self.plan(steps)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.schedule.load_state_dict(state["schedule"])
