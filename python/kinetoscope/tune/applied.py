"""Puts a Setting on a model itself, for a program that keeps the model."""

import torch

from kinetoscope.torch.tensor_tree import mapped
from kinetoscope.tune.covered_method import cover


def apply(model, setting, device_type):
    """The model with this setting: itself changed, or what torch.compile makes of it. Of a Setting
    only what a model can have in itself counts: precision by autocast, layout, checkpointing,
    compilation."""
    model = setting.with_(quantization=None).change_model(model)
    if setting.half is not None:
        vars(model)["_kscope_autocast"] = (device_type, setting.half)
        cover(model, "forward", _forward)
    return setting.compiled(model)


def _forward(model, forward, *args, **kwargs):
    """Around a model's forward: under autocast, with outputs that are float32 again, so that what
    the program does with them is as exact as before."""
    device_type, dtype = model._kscope_autocast
    with torch.autocast(device_type, dtype):
        output = forward(*args, **kwargs)
    return mapped(_as_float, output)


def _as_float(tensor):
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
