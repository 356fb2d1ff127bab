"""Goal: CUPTI is taken out of the driver by nobody but us, only for the end of a session, and never
against what the environment says. Method: the module's decision with the facts it asks torch for,
which a machine without a GPU cannot give; tests/device shows what it does to a real driver.
"""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

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
