"""Weights of fewer bits, for inference: by torch itself, and by torchao where it is installed."""

import importlib.util
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Way:
    """One way to quantise. `apply` gives the quantised model; it may change the one it is given.
    `missing` says why it cannot be used here, None: it can."""

    apply: Callable[[torch.nn.Module], torch.nn.Module]
    missing: Callable[[torch.nn.Module], str | None]
    tolerance_name: str
    code: list[str]


def _device_of(model):
    tensor = next(model.parameters(), None)
    return "cpu" if tensor is None else tensor.device.type


def _dynamic(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch points to torchao
        return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)


def _dynamic_missing(model):
    if _device_of(model) != "cpu":
        return "dynamic int8 of torch runs on a CPU only"
    if not hasattr(getattr(torch.ao, "quantization", None), "quantize_dynamic"):
        return "this torch has no quantize_dynamic"
    return None


def _by_torchao(config_name, *args):
    def apply(model):
        from torchao import quantization

        quantization.quantize_(model, getattr(quantization, config_name)(*args))
        return model

    return apply


def _torchao_missing(config_name):
    def missing(model):
        if importlib.util.find_spec("torchao") is None:
            return "torchao is not installed"
        from torchao import quantization

        return None if hasattr(quantization, config_name) else f"torchao has no {config_name}"

    return missing


def _torchao(config_name, tolerance_name):
    lines = [
        f"from torchao.quantization import {config_name}, quantize_",
        f"quantize_(model, {config_name}())",
    ]
    return Way(_by_torchao(config_name), _torchao_missing(config_name), tolerance_name, lines)


WAYS = {
    "int8_dynamic": Way(
        _dynamic,
        _dynamic_missing,
        "int8",
        [
            "model = torch.ao.quantization.quantize_dynamic(",
            "    model, {torch.nn.Linear}, dtype=torch.qint8)",
        ],
    ),
    "int8_weight_only": _torchao("Int8WeightOnlyConfig", "int8"),
    "int4_weight_only": _torchao("Int4WeightOnlyConfig", "int4"),
}


def saved_bytes(model):
    """Size of the weights as torch.save writes them, which packed ones have no other of; None where
    they cannot be saved."""
    counter = _Counter()
    try:
        torch.save(model.state_dict(), counter)
    except Exception:  # tensors of a library that cannot be written
        return None
    return counter.size


class _Counter(io.RawIOBase):
    """Keeps nothing of what is written, but how much it was."""

    size = 0

    def writable(self):
        return True

    def write(self, data):
        self.size += len(data)
        return len(data)
