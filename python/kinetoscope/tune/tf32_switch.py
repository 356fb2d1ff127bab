"""tf32: products of float32 by TF32 in a block, in whichever way this torch has it switched."""

import contextlib

import torch


@contextlib.contextmanager
def tf32(is_on):
    """In the block products and convolutions of a GPU are computed in TF32, or in full. After it
    all switches are as they were.

    Since torch 2.9 there are switches with the name fp32_precision, general ones and, below these,
    those of an operation, which follow as long as they are not set. The old ones raise when they
    contradict them, so that programs use the one kind or the other.
    """
    with contextlib.ExitStack() as stack:
        if not hasattr(torch.backends, "fp32_precision"):
            stack.enter_context(_by_old_switches(is_on))
        else:
            stack.enter_context(_by_new_switches("tf32" if is_on else "ieee"))
        yield


@contextlib.contextmanager
def _by_old_switches(is_on):
    matmul, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if is_on else "highest")
    torch.backends.cudnn.allow_tf32 = is_on
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = cudnn


@contextlib.contextmanager
def _by_new_switches(wanted):
    backends = torch.backends
    switches = [backends.cudnn, backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
    with contextlib.ExitStack() as stack:
        name = _old_name()
        if name is None:
            switches.insert(0, backends)
        else:
            stack.enter_context(_old_name_of(wanted, name))
        for switch in switches:  # general ones first: then only those are left that are set
            before = switch.fp32_precision
            if before != wanted:
                stack.callback(setattr, switch, "fp32_precision", before)
                switch.fp32_precision = wanted
        yield


def _old_name():
    """What the old switch says; None where the program uses new ones, which it may contradict."""
    backends = torch.backends
    general = (backends, backends.cudnn, backends.mkldnn)
    if any(switch.fp32_precision != "none" for switch in general):
        return None
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


@contextlib.contextmanager
def _old_name_of(wanted, before):
    """Compilers ask the old switch, which must not contradict the new ones. Setting it sets them,
    too."""
    ours = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    kept = [(switch, switch.fp32_precision) for switch in ours]
    torch.set_float32_matmul_precision("high" if wanted == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        for switch, precision in kept:
            switch.fp32_precision = precision
