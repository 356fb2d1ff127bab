"""What the tests of the recorder share: programs run with our hook, and the same without.

The environment is what `kscope run` sets; the launcher itself is tested in test_run.py. What lands
in the folder is read with json alone, not with kscope.
"""

import gzip
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from warm_python import WarmPython

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
WARM = None  # a Python that has torch already (warm_python.py)
FRESH = (sys.executable,)


def plain_environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KSCOPE_")}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def hook_environment(out, steps, **more):
    """KSCOPE_* of `more` are given in lower case without the prefix."""
    ours = {
        "PYTHONPATH": str(ROOT / "python" / "kinetoscope" / "inject"),
        "KSCOPE_RUN": "1",
        "KSCOPE_OUT": str(out),
        "KSCOPE_STEPS": steps,
        "KSCOPE_STACKS": "1",  # no more tries on a machine that others use
    }
    ours.update({f"KSCOPE_{name.upper()}": str(value) for name, value in more.items()})
    return plain_environment(**ours)


class Recorded:
    """How a program ended, and what it left in the folder."""

    def __init__(self, done, out):
        self.returncode = done.returncode
        self.stdout = done.stdout
        self.stderr = done.stderr
        self.out = out
        self.statuses = [json.loads(p.read_text()) for p in sorted(out.glob("kscope-run.*.status"))]

    @property
    def status(self):
        (status,) = self.statuses
        return status

    def names(self):
        return sorted(path.name for path in self.out.iterdir())

    def clean(self, index=0):
        return self._trace(self.status["traces"][index])

    def stacks(self, index=0):
        return self._trace(self.status["stack_traces"][index])

    def _trace(self, name):
        with gzip.open(self.out / name, "rt") as file:
            return Trace(json.load(file, parse_float=str))


class Trace:
    def __init__(self, document):
        self.about = document["kinetoscope"]
        self.events = [event for event in document["traceEvents"] if event.get("ph") == "X"]

    def count(self, name):
        return sum(event["name"] == name for event in self.events)

    def category_count(self, category):
        return sum(event.get("cat") == category for event in self.events)

    def steps(self):
        numbers = {
            int(event["name"].partition("#")[2])
            for event in self.events
            if event["name"].startswith("ProfilerStep#")
        }
        return sorted(numbers)

    def span(self, event):
        begin = nanoseconds(event["ts"])
        return begin, begin + nanoseconds(event["dur"])

    def counts_in_steps(self, name):
        """How often an event lies inside each step, in the order of steps."""
        marks = [e for e in self.events if e["name"].startswith("ProfilerStep#")]
        marks = {e["name"]: self.span(e) for e in marks if e.get("cat") == "user_annotation"}
        spans = [self.span(e) for e in self.events if e["name"] == name]
        ordered = sorted(marks.values())
        return [sum(b <= begin and end <= e for begin, end in spans) for b, e in ordered]


def nanoseconds(text):
    whole, _, part = str(text).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def said(stderr):
    """Without what torch's own profiler says wherever it runs."""
    kept = [line for line in stderr.splitlines() if not line.startswith("USDT:")]
    return [line for line in kept if "before the profiling started" not in line]


def write_program(folder, text, name="program.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def start(executable, words, folder, env):
    words = [str(word) for word in words]
    if executable is WARM:
        return WarmPython([sys.executable, *words], folder, env)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*executable, *words], cwd=folder, env=env, **pipes)


def finish(process):
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start_recorded(folder, *words, steps="3:1:3", executable=WARM, **more):
    out = folder / "out"
    out.mkdir()
    return start(executable, words, folder, hook_environment(out, steps, **more))


def run_recorded(folder, *words, **more):
    return Recorded(finish(start_recorded(folder, *words, **more)), folder / "out")


def start_plain(folder, *words, executable=WARM):
    return start(executable, words, folder, plain_environment())


def run_plain(folder, *words, **more):
    return finish(start_plain(folder, *words, **more))


def run_both(folder, text, steps="3:1:3", executable=WARM, **more):
    """The recorded run, after it was found to be like the one without us: words, losses, ending."""
    program = write_program(folder, text)
    other_folder = folder / "plain"
    other_folder.mkdir()
    plain = start_plain(other_folder, program, executable=executable)  # both at once
    recorded = run_recorded(folder, program, steps=steps, executable=executable, **more)
    plain = finish(plain)
    assert recorded.stdout == plain.stdout, recorded.stderr
    assert recorded.returncode == plain.returncode, recorded.stderr
    assert said(recorded.stderr) == said(plain.stderr)
    assert not [name for name in recorded.names() if name.endswith(".tmp")]
    return recorded
