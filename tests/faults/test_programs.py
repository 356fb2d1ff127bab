"""Goal: both twins of every fault program run, on any machine. Method: a few steps on the CPU, each
forked from a Python that has torch already; programs of several ranks by torchrun.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "programs"
SECONDS_MAX = 120
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

from catalog import PROGRAMS  # noqa: E402
from warm_python import WarmPython  # noqa: E402


def kinds_of(program):
    several = [["--fix", fault] for fault in program.faults] if len(program.faults) > 1 else []
    return [["--bad"], ["--good"], *several]


CASES = [
    pytest.param(program, kind, id=f"{program.name} {' '.join(kind)}")
    for program in PROGRAMS
    for kind in kinds_of(program)
]


def start(program, command, folder, env):
    """What starts processes of its own needs a Python of its own."""
    if program.ranks == 1:
        return WarmPython(command, folder, env)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.torch
@pytest.mark.parametrize(("program", "kind"), CASES)
def test_twin_runs(tmp_path, program, kind):
    path = str(FOLDER / f"{program.name}.py")
    command = [*program.command(sys.executable, path), "--device", "cpu", "--steps", "3", *kind]
    process = start(program, command, tmp_path, {**os.environ, "OMP_NUM_THREADS": "1"})
    said, complaints = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, complaints
    assert len(re.findall(r"^step_ms [0-9.]+$", said, re.MULTILINE)) == 1


def test_each_program_is_in_the_catalog():
    names = {path.stem for path in FOLDER.glob("*.py")} - {"twin", "decoder"}
    assert names == {program.name for program in PROGRAMS}
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    assert sum(not program.needs_gpu for program in PROGRAMS) >= 12
    assert len(PROGRAMS) >= 25
