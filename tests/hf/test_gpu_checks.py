"""Goal: the script that holds our figures against a GPU can fail. Method: its table is given
figures that are right and wrong; its clock runs beside a generation here."""

import importlib.util
import io
import pathlib

import pytest
from tiny_models import hooks_on, torch

pytestmark = pytest.mark.torch
SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "device" / "hf_gpu.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("hf_gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table(script):
    table = script.Table(io.StringIO())
    for ours, outside, share in ((109.0, 100.0, 0.1), (91.0, 100.0, 0.1), (5, 5, 0.0)):
        table.judge("right", ours, outside, share)
    assert (table.passed, table.failed) == (3, 0)
    for ours, outside, share in ((111.0, 100.0, 0.1), (None, 100.0, 0.1), (5, 6, 0.0)):
        table.judge("wrong", ours, outside, share)
    assert (table.passed, table.failed) == (3, 3)


def test_a_part_that_fails_ends_no_other(script, monkeypatch, tmp_path):
    def fail(table, device):
        raise RuntimeError("planted")

    parts = {
        "first": (fail, False),
        "second": (lambda table, device: table.judge("it", 1, 1, 0), False),
        "third": (fail, True),
    }
    monkeypatch.setattr(script, "parts_of", lambda folder: parts)
    monkeypatch.setattr(script, "transformers", None)
    file = io.StringIO()
    table = script.Table(file, 100)
    script.run_parts(table, torch.device("cpu"), tmp_path, None)
    assert (table.passed, table.failed) == (1, 1)
    assert "fail: failed: RuntimeError: planted" in file.getvalue()
    assert "third: left out, for transformers is not installed\n" in file.getvalue()
    late = script.Table(file, -1)
    script.run_parts(late, torch.device("cpu"), tmp_path, "second")
    assert late.passed == 0 and "second: left out, for time is up" in file.getvalue()


def test_parts_without_transformers(script, monkeypatch):
    monkeypatch.setattr(script, "transformers", None)
    table, device = script.Table(io.StringIO()), torch.device("cpu")
    script.judge_estimate(table, device, "plain", {"autocast": "bfloat16"})
    script.judge_training(table, device)
    # A clock beside ours says little of a tiny model on a CPU: bytes and losses do.
    assert table.passed >= 3 and table.failed <= 1


def test_generation_here(script):
    device = torch.device("cpu")
    model = script.make_model("llama", device).eval()
    bare = hooks_on(model)
    beside = script.Beside(model, device)
    ids = torch.randint(1, 200, (2, 9))
    got = script.hf.profile_generation(model, ids, max_new_tokens=4, runs=1)
    beside.remove()
    assert hooks_on(model) == bare and "generate" not in vars(model)
    assert [length for length, _, _ in beside.spans] == [9, 1, 1, 1]
    assert 0 < beside.first < beside.total
    assert got["total_time"] >= beside.total  # ours lies around it
    assert beside.seconds(True) + beside.seconds(False) < beside.total
