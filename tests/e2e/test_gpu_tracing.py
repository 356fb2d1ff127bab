"""Goal: CUPTI is taken out of the driver by nobody but us, only for the end of a session, and never
against what the environment says. Method: the module's decision with the facts it asks torch for,
which a machine without a GPU cannot give; then windows of real programs, which print when they ask
for it; tests/device shows what it does to a real driver.
"""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from recorded import run_recorded, write_program

sys.path.insert(0, str(Path(__file__).parents[2] / "python"))
from kinetoscope.torch.gpu_tracing import last_session  # noqa: E402

NAME = "TEARDOWN_CUPTI"


def torch_with(cuda, is_initialized=True):
    return SimpleNamespace(
        version=SimpleNamespace(cuda=cuda),
        cuda=SimpleNamespace(is_initialized=lambda: is_initialized),
    )


@pytest.mark.parametrize(
    ("cuda", "is_initialized", "meanwhile"),
    [
        ("13.0", True, "1"),
        ("12.6", True, "1"),
        ("12.4", True, None),
        ("13.0", False, None),
        (None, True, None),
        ("rocm", True, None),
    ],
)
def test_is_set_for_the_end_of_the_session(monkeypatch, cuda, is_initialized, meanwhile):
    monkeypatch.delenv(NAME, raising=False)
    with last_session(torch_with(cuda, is_initialized)):
        assert os.environ.get(NAME) == meanwhile
    assert NAME not in os.environ


@pytest.mark.parametrize("value", ["0", "1", ""])
def test_leaves_the_users_word_alone(monkeypatch, value):
    monkeypatch.setenv(NAME, value)
    with last_session(torch_with("13.0")):
        assert os.environ[NAME] == value
    assert os.environ[NAME] == value


def test_is_gone_after_a_failure(monkeypatch):
    monkeypatch.delenv(NAME, raising=False)
    with pytest.raises(ValueError, match="broken"), last_session(torch_with("13.0")):
        raise ValueError("broken")
    assert NAME not in os.environ


PROGRAM = """
import contextlib
import torch
from kinetoscope.torch import window
window.last_session = lambda torch: print("end", number) or contextlib.nullcontext()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(1, 41):
    OWN
    optimizer.zero_grad()
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
"""
OWN = """if number in (2, 3):
        own = torch.profiler.profile() if number == 2 else own
        own.start() if number == 2 else own.stop()"""
OWN_IN_THE_WINDOW = OWN.replace("2", "6").replace("3", "8")


@pytest.mark.parametrize(
    ("options", "own", "ends"),
    [
        ({"steps": "4:1:3", "stacks": "0"}, "pass", "8"),
        ({"steps": "4:1:3"}, "pass", "10"),  # the step with stacks follows at once
        ({"steps": "4:0:3:2", "stacks": "0"}, "pass", "14"),  # windows follow at once
        ({"steps": "12:0:3:2", "stacks": "0"}, "pass", "15 30"),
        ({"steps": "5:0:3", "stacks": "0"}, OWN, ""),  # perhaps it profiles again at once
        ({"steps": "4:0:3", "stacks": "0"}, OWN_IN_THE_WINDOW, ""),
        ({"steps": "38:0:3", "stacks": "0"}, "pass", ""),  # the program ends first
    ],
)
def test_windows_know_what_follows(tmp_path, options, own, ends):
    program = write_program(tmp_path, PROGRAM.replace("OWN", own))
    recorded = run_recorded(tmp_path, program, **options)
    assert recorded.returncode == 0, recorded.stderr
    assert recorded.stdout.split()[1::2] == ends.split()
