"""Puts a Setting on a model itself, for a program that keeps the model."""

import types

import torch


def apply(model, setting, device_type):
    """The model with this setting: itself changed, or what torch.compile makes of it. Of a Setting
    only what a model can have in itself counts: precision by autocast, layout, checkpointing,
    compilation."""
    model = setting.with_(quantization=None).change_model(model)
    if setting.half is not None:
        vars(model)["_kscope_autocast"] = (device_type, setting.half)
        model.forward = types.MethodType(forward, model)
    return setting.compiled(model)


def forward(self, *args, **kwargs):
    """In place of a model's forward: under autocast, with outputs that are float32 again, so that
    what the program does with them is as exact as before."""
    device_type, dtype = self._kscope_autocast
    with torch.autocast(device_type, dtype):
        output = type(self).forward(self, *args, **kwargs)
    return _as_float(output)


def _as_float(value):
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_as_float, value))
    if isinstance(value, tuple | list):
        return type(value)(map(_as_float, value))
    if hasattr(value, "keys") and hasattr(value, "__setitem__"):
        for key in list(value.keys()):
            value[key] = _as_float(value[key])
        return value
    return value
