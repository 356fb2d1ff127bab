"""make_twin: a copy of a module whose tensors have shapes and no data, and that has no hooks."""

import copy

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
)


def make_twin(model, mode, device, dtype=None):
    """The copy, with its tensors in `mode`, a FakeTensorMode. Tensors that are shared in the model
    are shared in it. dtype: of floating point tensors; None: each keeps its own."""
    memo = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        memo.setdefault(id(tensor), _fake(tensor, mode, device, dtype))
    for module in model.modules():
        for name in _HOOKS:
            table = vars(module).get(name)
            if table:
                memo[id(table)] = type(table)()
    return copy.deepcopy(model, memo)


def _fake(tensor, mode, device, dtype):
    kept = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
    with mode:
        fake = torch.empty(tensor.shape, dtype=kept, device=device)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
    return fake


class AnswersAboutMasks(TorchDispatchMode):
    """In the block a model that asks its data whether all of something is so hears yes, and whether
    any is, no: what masks of texts without padding say. Other questions have no answer."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        packet = function.overloadpacket
        if packet is torch.ops.aten._local_scalar_dense:
            answer = getattr(args[0], "_answer", None)
            if answer is not None:
                return answer
        result = function(*args, **(kwargs or {}))
        if packet in (torch.ops.aten.all, torch.ops.aten.any) and result.ndim == 0:
            result._answer = packet is torch.ops.aten.all
        return result
