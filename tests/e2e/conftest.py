"""A shell that starts the tests in the background makes them ignore interrupts, and so would every
program they start; the tests of signals need what a terminal gives."""

import signal
import subprocess

import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture
def living():
    """A process that lives as long as the test."""
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def dead():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid
