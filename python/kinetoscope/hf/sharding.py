"""What one of several ranks holds (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models", 2020, sections 5 and 7)."""

NAMES = ("ddp", "zero1", "zero2", "zero3")

_SHARED = {
    "ddp": (),
    "zero1": ("optimizer_state",),
    "zero2": ("optimizer_state", "gradients"),
    "zero3": ("optimizer_state", "gradients", "parameters"),
}


def shares(name, ranks):
    """{kind: how many ranks share it}"""
    return {kind: ranks for kind in _SHARED[name]}


def communication_bytes(model, name, ranks):
    """Buffers that are there all the time.

    ddp and zero1: the buckets of DistributedDataParallel, which are as large as the gradients.
    zero3: parameters of two layers as a whole, the one that computes and the one that comes next.
    zero2 reduces each gradient from where it was made.
    """
    if ranks == 1 or name == "zero2":
        return 0
    if name == "zero3":
        return 2 * max((_bytes(layer) for layer in _layers(model)), default=_bytes(model))
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)


def _layers(model):
    """What FSDP wraps: the modules that transformers keeps together."""
    names = set(getattr(model, "_no_split_modules", None) or ())
    return [module for module in model.modules() if type(module).__name__ in names]


def _bytes(module):
    return sum(p.numel() * p.element_size() for p in module.parameters())
