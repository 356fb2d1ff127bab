#!/usr/bin/env python3
"""The parts of the test on a machine with a GPU, one after the other; each runs whatever failed.

    run_parts.py KSCOPE OUT

Started by tools/device_test.sh. OUT receives results.txt, the recorded run and its report, and the
traces that were compared with torch: few files, and small ones. The last line is `N passed, N
failed`; the exit status is 0 when none failed.
"""

import lzma
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data"
EXTENSION = HERE.parents[1] / "tools" / "device_extension.sh"
COMMAND_SECONDS_MAX = 150
RUN_SECONDS_MAX = 330  # then no further part begins
TWO_RANKS = "D.straggler.bad.rank*.pt.trace.json.gz"


class PartFailed(Exception):
    pass


class Bench:
    """Where things are, and what is said is also written down."""

    def __init__(self, kscope, out, work):
        self.kscope = str(pathlib.Path(kscope).resolve())
        self.out = pathlib.Path(out).resolve()
        self.work = pathlib.Path(work)
        self.out.mkdir(parents=True, exist_ok=True)
        self._results = open(self.out / "results.txt", "w", encoding="utf-8")

    def say(self, text):
        print(text, flush=True)
        self._results.write(f"{text}\n")
        self._results.flush()

    def call(self, *command, output=None):
        """Runs a program; its output is said, or goes to the file `output`."""
        began = time.monotonic()
        words = [str(word) for word in command]
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if output else subprocess.STDOUT,
                timeout=COMMAND_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise PartFailed(f"{words[:3]} took more than {COMMAND_SECONDS_MAX} s") from late
        if output:
            output.write_bytes(done.stdout)
        said = done.stderr if output else done.stdout
        for line in said.decode(errors="replace").splitlines():
            self.say(f"  {line}")
        if done.returncode:
            raise PartFailed(f"exit status {done.returncode}: {' '.join(words[:4])}")
        return time.monotonic() - began

    def python(self, script, *arguments, output=None):
        script = script if script.startswith("-") else HERE / script
        return self.call(sys.executable, script, *arguments, output=output)


def versions(bench):
    import torch  # in this process: a torch that cannot be imported fails this part, not the rest

    devices = torch.cuda.device_count()
    bench.say(f"  python {sys.version.split()[0]}, torch {torch.__version__}, {os.uname().release}")
    bench.say(
        f"  cuda {torch.version.cuda}, devices {devices}, libc {os.confstr('CS_GNU_LIBC_VERSION')}"
    )
    bench.call(bench.kscope, "version")


def doctor(bench):
    bench.call(bench.kscope, "doctor")


def unprofiled(bench):
    for name, options in (("slow", []), ("fixed", ["--fixed"])):
        log = bench.work / f"{name}.log"
        bench.python("train_gpu.py", *options, output=log)
        bench.say(f"  {name}: {log.read_text().splitlines()[-1]}")


def recorded(bench):
    run = bench.work / "run"
    program = [sys.executable, HERE / "train_gpu.py", "--steps", "15"]
    bench.call(bench.kscope, "run", "--steps", "2:2:4", "--out", run, *program)
    traces = sorted(run.glob("*.window1.pt.trace.json.gz"))
    stacks = sorted(run.glob("*.window1.stacks.pt.trace.json.gz"))
    if (len(traces), len(stacks)) != (1, 1):
        raise PartFailed(
            f"one trace and one with stacks expected, not {len(traces)}, {len(stacks)}"
        )
    shutil.copy(traces[0], bench.out / "run.pt.trace.json.gz")
    shutil.copy(stacks[0], bench.out / "run.stacks.pt.trace.json.gz")
    json_path = bench.out / "run.report.json"
    took_s = bench.call(bench.kscope, "report", "--json", run, output=json_path)
    bench.say(f"  report --json of {traces[0].stat().st_size >> 10} KiB: {took_s:.3f} s")
    logs = (bench.work / "slow.log", bench.work / "fixed.log")
    bench.python("check_run.py", json_path, *logs)


def averages(bench):
    folder = bench.work / "averages"
    try:
        bench.python("record_averages.py", folder)
    finally:  # what was recorded before a failure comes back too
        if folder.exists():
            with tarfile.open(bench.out / "averages.tar", "w") as tar:  # its members are packed
                tar.add(folder, "averages")
    bench.python("compare_averages.py", bench.kscope, folder)


def planted(bench):
    """Idle time has the cause that was planted."""
    folder = bench.work / "planted"
    try:
        bench.python("planted_waits.py", bench.kscope, folder)
    finally:
        if folder.exists():
            with tarfile.open(bench.out / "planted.tar", "w") as tar:
                tar.add(folder, "planted")


def package(bench):
    """The package measures the GPU as torch and the test's own clocks do, and changes nothing."""
    if (EXTENSION.parents[1] / "lib").exists():  # the bundle; a source tree has it built
        bench.call(EXTENSION)
    tests = HERE.parent / "torch" / "test_agreement.py"
    bench.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", tests)


def unchanged(bench):
    """Losses are the same to the last bit with everything recorded."""
    bench.python("same_losses.py", bench.kscope)


def stored(bench):
    """Every stored trace alone, then the two ranks of one run together."""
    traces = sorted(DATA.glob("*.pt.trace.json.gz"))
    for packed in DATA.glob("*.pt.trace.json.xz"):
        plain = bench.work / packed.stem
        plain.write_bytes(lzma.decompress(packed.read_bytes()))
        traces.append(plain)
    inputs = [[trace] for trace in traces] + [sorted(DATA.glob(TWO_RANKS))]
    wrong = []
    for paths in inputs:
        text = bench.work / "report.txt"
        names = " ".join(path.name for path in paths)
        try:
            took_s = bench.call(bench.kscope, "report", *paths, output=text)
        except PartFailed as failure:
            wrong.append(f"{names}: {failure}")
            continue
        bench.say(f"  {took_s:6.3f} s  {names}")
        if not text.read_bytes().strip():
            wrong.append(f"{names}: says nothing")
    if wrong or not traces:
        raise PartFailed("; ".join(wrong) or f"no traces in {DATA.name}")


PARTS = (versions, doctor, unprofiled, recorded, averages, planted, package, unchanged, stored)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: run_parts.py KSCOPE OUT")
    failed = 0
    begin_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="device-test-") as work:
        bench = Bench(sys.argv[1], sys.argv[2], work)
        for part in PARTS:
            began_s = time.monotonic()
            bench.say(f"{part.__name__}:")
            try:
                if began_s - begin_s > RUN_SECONDS_MAX:
                    raise PartFailed(f"not begun: {RUN_SECONDS_MAX} s are over")
                part(bench)
            except Exception as failure:
                failed += 1
                bench.say(f"FAILED {part.__name__}: {type(failure).__name__}: {failure}")
            else:
                bench.say(f"PASSED {part.__name__} in {time.monotonic() - began_s:.1f} s")
        bench.say(f"{len(PARTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
