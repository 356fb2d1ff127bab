"""Goal: train_text.py learns, and each of its switches plants what it names and changes no result.

Method: tiny runs on the CPU, as a user starts them; losses, words and step times are compared.
What the faults cost on a GPU, and what kscope says of them, is tests/device/text_faults.py.
"""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "train_text.py"
sys.path.insert(0, str(ROOT / "tests" / "device"))

from text_faults import FAULTS, ON_CPU, marked_lines  # noqa: E402

TIMEOUT_S = 120
GAP_MS = 30
TINY_BATCH_MS = 8  # fetching eight documents, one after the other

pytestmark = pytest.mark.torch


def run(*options):
    words = [sys.executable, PROGRAM, "--device", "cpu", "--size", "tiny", *map(str, options)]
    return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def losses(done):
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^step +(\d+)  loss ([0-9.]+)$", done.stdout, re.MULTILINE))


def median_ms(done):
    last = done.stdout.splitlines()[-1]
    return float(re.fullmatch(r"median_step_ms ([0-9.]+) tokens_per_s \d+", last)[1])


@pytest.fixture(scope="module")
def without_faults():
    return run("--steps", 40)


def test_loss_falls_and_nothing_is_said(without_faults):
    found = losses(without_faults)
    assert list(found) == ["1", "20", "40"]
    assert float(found["40"]) < float(found["20"]) < float(found["1"])
    assert float(found["40"]) < 2 < 6 < float(found["1"])
    assert median_ms(without_faults) > 0
    assert without_faults.stderr == ""
    assert without_faults.stdout.splitlines()[0] == "device cpu"


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_changes_no_result(without_faults, fault):
    done = run("--steps", 20, "--fault", fault)
    found, expected = losses(done), losses(without_faults)
    if fault == "launch.bound":  # the same sums in another order
        assert float(found["20"]) == pytest.approx(float(expected["20"]), rel=1e-3)
    else:
        assert found == {step: expected[step] for step in ("1", "20")}
    assert len(done.stderr.splitlines()) == (fault not in ON_CPU)
    if fault not in ON_CPU:
        assert done.stderr.startswith(f"train_text: {fault} costs nothing on a CPU: ")


def test_faults_that_a_cpu_can_show_cost_what_they_plant():
    done = run("--steps", 20, "--fault", "input.starved,host.python_gap")
    assert median_ms(done) > GAP_MS + TINY_BATCH_MS


def test_several_faults_that_a_cpu_cannot_show():
    done = run("--steps", 2, "--fault", "copy.pageable,copy.many_small")
    losses(done)
    assert len(done.stderr.splitlines()) == 2


def test_another_seed_is_another_text(without_faults):
    found = losses(run("--steps", 20, "--seed", 1))
    assert found["1"] != losses(without_faults)["1"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--fault", "sync.host,sync.hots"), "sync.hots"),
        (("--steps", 1), "--steps"),
        (("--size", "huge"), "huge"),
    ],
)
def test_wrong_usage(options, word):
    done = run(*options)
    assert done.returncode == 2 and done.stdout == ""
    assert word in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_marked_once(fault):
    first, last, mark = marked_lines(PROGRAM, fault)
    assert first < mark <= last
    assert f"`{fault}`" in (ROOT / "docs" / "examples.md").read_text()
