"""What the fault programs share: which twin to be, on which device, and how long a step takes.

    PROGRAM.py [--good | --bad] [--fix ID]... [--device auto|cpu|cuda] [--steps N]

`--bad` (the default) has all faults of the program, `--fix ID` repairs one of them, `--good` all.
The last line is `step_ms N`: the mean over all steps behind the first ones, devices synchronised.
Of several ranks the first one writes it. TWIN_LOCK may name a file: of the programs started with
it, one at a time is behind its imports, so that they start side by side and have the device alone.
"""

import argparse
import atexit
import fcntl
import os
import sys
import time

import torch

WARM_STEPS = 6


def leave():
    """Ends a process of several without tearing Python down: a thread of gloo needs the GIL to let
    go of its last work, and aborts the process when Python is ending already (torch 2.13)."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(0)


def wait_for_turn():
    """A lock, when others run beside this program; it takes the device up before it waits."""
    path = os.environ.get("TWIN_LOCK")
    if not path or os.environ.get("RANK", "0") != "0":
        return None
    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")
    lock = open(path, "ab")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


class Twin:
    def __init__(self, *faults, steps=40):
        parser = argparse.ArgumentParser()
        parser.add_argument("--good", action="store_true")
        parser.add_argument("--bad", action="store_true")
        parser.add_argument("--fix", action="append", default=[], choices=faults)
        parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
        parser.add_argument("--steps", type=int, default=steps)
        options = parser.parse_args()
        self._lock = wait_for_turn()
        self._bad = set() if options.good else set(faults) - set(options.fix)
        self._last = options.steps
        self._done = 0
        self._began = 0.0
        self.steps = options.steps
        is_there = torch.cuda.is_available()
        self.device = options.device
        if options.device == "auto":
            self.device = "cuda" if is_there else "cpu"
        self.is_gpu = self.device == "cuda"
        torch.manual_seed(0)

    def has(self, fault):
        return fault in self._bad

    def pick(self, on_cpu, on_gpu):
        return on_gpu if self.is_gpu else on_cpu

    def _synchronize(self):
        if self.is_gpu:
            torch.cuda.synchronize()

    def step(self):
        """Call it at the end of each step; True after the last one, whose time is printed."""
        self._done += 1
        if self._done == min(WARM_STEPS, self._last - 1):
            self._synchronize()
            self._began = time.perf_counter()
        if self._done == self._last:
            self._synchronize()
            seconds = time.perf_counter() - self._began
            count = self._last - min(WARM_STEPS, self._last - 1)
            if os.environ.get("RANK", "0") == "0":
                print(f"step_ms {seconds * 1e3 / count:.4f}", flush=True)
            if self._lock:
                self._lock.close()
        return self._done >= self._last
