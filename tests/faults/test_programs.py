"""Goal: both twins of every fault program run, on any machine. Method: a few steps on the CPU, all
in one process that has torch already and forks for each.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from catalog import PROGRAMS  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / "programs"

# Reads `PATH WORDS...` by line, runs each in a child, and says how it ended.
RUNNER = """
import os, runpy, sys, traceback
sys.path.insert(0, {folder!r})
import torch, twin
for line in sys.stdin:
    words = line.split()
    child = os.fork()
    if child == 0:
        sys.argv = words
        try:
            runpy.run_path(words[0], run_name="__main__")
            status = 0
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        os._exit(status)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def runner():
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RUNNER.format(folder=str(FOLDER))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=env, **pipes) as process:
        yield process
        process.stdin.close()


def run(runner, *words):
    runner.stdin.write(" ".join(map(str, words)) + "\n")
    runner.stdin.flush()
    said = []
    for line in runner.stdout:
        if line.startswith("ended "):
            return int(line.split()[1]), "".join(said)
        said.append(line)
    raise AssertionError("the process of all programs ended")


def kinds_of(program):
    several = [["--fix", fault] for fault in program.faults] if len(program.faults) > 1 else []
    return [["--bad"], ["--good"], *several]


CASES = [
    pytest.param(program, kind, id=f"{program.name} {' '.join(kind)}")
    for program in PROGRAMS
    for kind in kinds_of(program)
]


@pytest.mark.torch
@pytest.mark.parametrize(("program", "kind"), CASES)
def test_twin_runs(runner, program, kind):
    path = FOLDER / f"{program.name}.py"
    status, said = run(runner, path, "--device", "cpu", "--steps", 3, *kind)
    assert status == 0
    assert re.search(r"^step_ms [0-9.]+$", said, re.MULTILINE)


def test_each_program_is_in_the_catalog():
    names = {path.stem for path in FOLDER.glob("*.py")} - {"twin"}
    assert names == {program.name for program in PROGRAMS}
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    assert sum(not program.needs_gpu for program in PROGRAMS) >= 12
    assert len(PROGRAMS) >= 25
