"""Goal: modules of torch are measured where transformers is missing. Method: a process in which its
import fails."""

import os
import pathlib
import subprocess
import sys

import pytest
from tiny_models import torch

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
pytestmark = pytest.mark.torch
PROGRAM = """
import sys
sys.modules["transformers"] = None
import torch
from kinetoscope import hf

class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50)

    def forward(self, input_ids):
        return self.head(self.table(input_ids))

model, ids = Words(), torch.arange(12).view(2, 6)
size = sum(p.numel() * p.element_size() for p in model.parameters())
estimate = hf.estimate_memory(model, 2, 6)
assert estimate["parts"]["parameters"] == size
assert hf.profile_inference_performance(model, ids, runs=2)["p50"] > 0
options = {"options": ["precision"], "seconds": 1.0, "rounds": 4}
assert hf.compare_inference_options(model, ids, **options)["best"]
loss = lambda output, target: torch.nn.functional.cross_entropy(output.flatten(0, 1), target)
batches = [({"input_ids": ids}, ids.flatten())] * 2
got = hf.profile_fine_tuning(model, batches, loss_fn=loss)
assert got["epochs"][0]["steps"] == 2 and got["gradient_memory"] == size
assert hf.TransformersMemoryProfiler().snapshot_model_memory(model, "a")["parameter_bytes"] == size
try:
    hf.load_model_with_profiling("folder")
except ImportError as failure:
    print("missing:", failure)
"""


def test_modules_of_torch():
    assert torch is not None
    command = [sys.executable, "-c", PROGRAM]
    env = os.environ | {"PYTHONPATH": str(PYTHON)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    assert "missing:" in done.stdout and "transformers" in done.stdout
