"""Checkpoints: all that a training needs to go on as if it had never stopped.

Random numbers are not in it: an epoch draws its own, from the seed and its number.
"""

import os
from typing import Any

import torch


def save_checkpoint(path: str, state: dict[str, Any]) -> None:
    """Writes a state: whole, or not at all. OSError."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        torch.save(state, temporary)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def load_checkpoint(path: str, device: torch.device) -> dict[str, Any]:
    """A state as it was saved. Runs no code that the file may hold."""
    return torch.load(path, map_location=device, weights_only=True)
