"""What is different about memory on a GPU, where there is one and where there is none.

With a GPU the twin's tensors say that they lie on it, and torch chooses kernels as it will. Without
one they lie on the CPU, and the two operators that save something else there are replaced by those
of a GPU: dropout keeps a mask of bytes, attention is one of the fused kernels.
"""

import contextlib
import os

import torch
from torch.overrides import TorchFunctionMode

# Sizes are rounded up to this by torch's allocator (kMinBlockSize, c10/cuda).
BLOCK = 512

# cuBLAS keeps a workspace for each thread and stream (at::cuda::getChosenWorkspaceSize).
_WORKSPACE = 4096 * 1024 * 2 + 16 * 1024 * 8
_WORKSPACE_HOPPER = 4096 * 8 * 1024


def device_for(model, device):
    """The device that was asked for, else that of the model's weights."""
    if device is not None:
        found = torch.device(device)
    else:
        found = next((p.device for p in model.parameters()), torch.device("cpu"))
        if found.type == "meta":
            found = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f"device is cpu or cuda, not {found}")
    return found


def fake_device(device):
    """Where the twin's tensors say that they lie."""
    has_device = device.type == "cpu" or torch.cuda.is_available()
    return torch.device(device.type if has_device else "cpu")


def workspace_bytes(device, is_training):
    """The forward and the backward have a thread each."""
    if device.type != "cuda":
        return 0
    return _workspace() * (2 if is_training else 1)


def _workspace():
    given = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "").strip(":").split(":")
    if len(given) >= 2 and all(word.isdigit() for word in given):
        pairs = zip(given[::2], given[1::2], strict=False)
        return sum(int(size) * 1024 * int(count) for size, count in pairs)
    is_hopper = not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] >= 9
    return _WORKSPACE_HOPPER if is_hopper else _WORKSPACE


def as_on(device, fake):
    """In the block operators save what they would on the device."""
    return contextlib.nullcontext() if device.type == fake.type else _AsOnGpu()


class _AsOnGpu(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in (torch.nn.functional.dropout, torch.dropout):
            return _dropout(function, *args, **kwargs)
        if function is torch.nn.functional.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        return function(*args, **kwargs)


def _dropout(function, input, p=0.5, training=True, inplace=False):
    """torch.dropout calls its second argument `train`, and gives it by position."""
    if not training or p == 0:
        return function(input, p, False)
    return torch.native_dropout(input, p, True)[0]


def _attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """The flash kernel takes halves without a mask, the memory-efficient one the rest."""
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (t.repeat_interleave(groups, -3) for t in (key, value))
    operators = torch.ops.aten
    if attn_mask is None and query.dtype in (torch.float16, torch.bfloat16):
        flash = operators._scaled_dot_product_flash_attention
        return flash(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype)
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    efficient = operators._scaled_dot_product_efficient_attention
    saves = torch.is_grad_enabled()
    return efficient(query, key, value, attn_mask, saves, dropout_p, is_causal, scale=scale)[0]
