"""Goal: the measure of memory is the program's own. Method: a program that holds much, and one that
holds nothing beside a test run that does."""

import subprocess
import sys

import peak_memory

MIB = 1 << 20


def run(tmp_path, code):
    file = tmp_path / "peak"
    command = peak_memory.command([sys.executable, "-I", "-S", "-c", code], file)
    status = subprocess.run(command, check=False).returncode
    return status, peak_memory.peak_bytes(file)


def test_what_the_program_holds_is_counted(tmp_path):
    status, peak = run(tmp_path, "bytearray(200 << 20)")
    assert status == 0
    assert 200 * MIB < peak < 260 * MIB


def test_what_the_test_run_holds_is_not(tmp_path):
    held = b"x" * (200 * MIB)
    status, peak = run(tmp_path, "import os; os._exit(7)")
    assert (status, len(held)) == (7, 200 * MIB)
    assert peak < 60 * MIB
