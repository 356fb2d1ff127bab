"""Goal: `kscope run --record WORDS` records programs that do not know us, in all their processes,
and what was recorded is in the report of the run. Method: programs that count their own calls are
run with and without, and what they print, how they end and their losses are compared."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KSCOPE = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))


def environment(more=None):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KSCOPE_")}
    ours = {"KSCOPE_PYTHON": sys.executable, "KSCOPE_PYTHON_DIR": str(ROOT / "python")}
    return {**kept, **ours, "XDG_CACHE_HOME": os.devnull, **(more or {})}


def run(tmp_path, source, *options, python=(), record="functions,samples", status=0, more=None):
    """What a program that was run said, the words of kscope behind it, and its folder."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(source))
    words = ["--record", record] if record else []
    started = [sys.executable, *python, program] if python else [program]
    done = subprocess.run(
        [KSCOPE, "run", *words, "--out", tmp_path / "out", *options, *started],
        env=environment(more),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, done.stderr
    return done


def report(tmp_path):
    return json.loads((tmp_path / "out" / "report.json").read_text())


def functions(tmp_path, file="program.py"):
    found = report(tmp_path)["functions"]
    return {row["name"]: row for row in found if (row["file"] or "").endswith("/" + file)}


PROCESSES = """
import multiprocessing, sys, time

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def busy(seconds):
    end = time.thread_time() + seconds  # the sampler's thread is one of the process
    while time.thread_time() < end:
        fib(3)

if __name__ == "__main__":
    fib(10)
    busy(0.5)
    fork, spawn = (multiprocessing.get_context(method) for method in ("fork", "spawn"))
    for context in (fork, spawn):
        child = context.Process(target=fib, args=(5,))
        child.start(), child.join()
        assert child.exitcode == 0
    print("torch" in sys.modules, "kinetoscope" in sys.modules)
"""


def test_functions_and_samples_of_all_processes(tmp_path):
    done = run(tmp_path, PROCESSES)
    assert done.stdout == "False True\n"
    assert "torch" not in done.stderr, "it is no fault to be no program of torch"
    assert "kscope report" in done.stderr and "Of the time in functions" in done.stderr
    found = functions(tmp_path)
    # fib(n) makes 2 fib(n + 1) - 1 calls: 177 of fib(10), 5 of each fib(3), 15 of each fib(5).
    busy = found["busy"]
    calls_of_busy = next(c for c in found["fib"]["callers"] if c["name"] == "busy")["calls"]
    assert busy["calls"] == 1
    assert found["fib"]["calls"] == 177 + 5 * calls_of_busy + 2 * 15
    assert found["fib"]["line"] == 4
    assert busy["total_ns"] > 0.5e9 and busy["total_ns"] > busy["self_ns"] > 0
    document = report(tmp_path)
    own = [row for row in document["samples"] if (row["file"] or "").endswith("/program.py")]
    (main,) = {row["pid"] for row in own if row["name"] == "busy"}
    rows = {row["name"]: row for row in own if row["pid"] == main}
    assert rows["<module>"]["total_share"] > 0.9 and rows["<module>"]["thread"] == "MainThread"
    assert 0.2 < rows["busy"]["total_share"] <= 1
    assert rows["busy"]["total_samples"] >= rows["busy"]["self_samples"]
    recordings = list((tmp_path / "out").glob("*.ksrec"))
    assert len(recordings) == 4  # the fourth is the resource tracker of `spawn`


def test_words_by_themselves(tmp_path):
    run(tmp_path, "sum(range(1000))", record="functions")
    document = report(tmp_path)
    assert document["functions"] and document["samples"] == []
    (tmp_path / "out").rename(tmp_path / "first")
    run(tmp_path, "import time\ntime.sleep(0.3)", record="samples")
    document = report(tmp_path)
    assert document["functions"] == [] and document["samples"]


def test_monitor_of_the_whole_run(tmp_path):
    """Curves of a program that is busy for a second; a forked child has none."""
    run(
        tmp_path,
        """
        import os, time
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        end = time.process_time() + 1.2
        while time.process_time() < end: pass
        """,
        record="monitor",
    )
    found = rows_of(
        tmp_path, "select name, count(*), max(value), series from mark where is_counter group by 1"
    )
    curves = {name: (count, most, unit) for name, count, most, unit in found}
    count, most, unit = curves["cpu.process"]
    assert unit == "percent" and count >= 5 and 20 < most < 200
    assert curves["memory.rss"][1] > 5e6 and curves["memory.rss"][2] == "bytes"
    assert len(list((tmp_path / "out").glob("*.ksrec"))) == 1
    assert report(tmp_path)["functions"] == []


@pytest.mark.parametrize("words", ["all", "", "functions,", "regions,none", "function"])
def test_unknown_words_are_refused(tmp_path, words):
    done = run(tmp_path, "print('never')", "--record", words, record=None, status=2)
    assert "regions, functions, samples and monitor" in done.stderr and done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_what_was_not_recorded_is_said(tmp_path):
    done = run(tmp_path, "print('ran')", python=["-S"])
    assert done.stdout == "ran\n"
    assert "nothing was recorded" in done.stderr and "-S" in done.stderr
    assert "torch" not in done.stderr


def test_a_python_without_the_extension_says_so(tmp_path):
    (tmp_path / "empty").mkdir()
    hidden = {"KSCOPE_EXTENSION_DIR": str(tmp_path / "empty")}
    done = run(tmp_path, "print('ran')", more=hidden)
    assert done.stdout == "ran\n"
    assert "there is no kinetoscope extension for this Python" in done.stderr
    assert "start-up hook" not in done.stderr and "circular" not in done.stderr


def test_a_program_that_fails_or_is_killed_has_its_report(tmp_path):
    run(tmp_path, "def work(): raise SystemExit(7)\nwork()", status=7)
    assert functions(tmp_path)["work"]["calls"] == 1
    (tmp_path / "out").rename(tmp_path / "first")
    run(
        tmp_path,
        "import os, signal\ndef work(): os.kill(os.getpid(), signal.SIGKILL)\nwork()",
        status=-9,
    )
    found = functions(tmp_path)["work"]
    assert found["calls"] == 1 and found["open_calls"] == 1


def test_profilers_of_the_program_go_first(tmp_path):
    """cProfile counts what it counts without us."""
    source = """
    import cProfile, pstats
    def work(): return [len("x") for _ in range(10)]
    work()
    profiler = cProfile.Profile()
    profiler.enable()
    work()
    profiler.disable()
    found = {key[2]: value[:2] for key, value in pstats.Stats(profiler).stats.items()}
    print(found["work"], found["<built-in method builtins.len>"])
    """
    with_us = run(tmp_path, source)
    (tmp_path / "out").rename(tmp_path / "first")
    without = run(tmp_path, source, record=None)
    assert with_us.stdout == without.stdout == "(1, 1) (10, 10)\n"


def test_ours_in_the_program_go_first(tmp_path):
    """A program that uses FunctionProfiler and StackSampler itself gets what it gets without."""
    source = """
    import time
    import kinetoscope as ks
    def before(): pass
    def inside(): return [len("x") for _ in range(10)]
    def after(): pass
    before()
    for _ in range(2):
        with ks.FunctionProfiler() as profiler:
            inside()
        after()
    found = {key[2]: value[:2] for key, value in profiler.stats().items()}
    print(found["inside"], found["<built-in method builtins.len>"])
    with ks.StackSampler(rate_hz=50) as sampler:
        print(sampler.is_on, sampler.counts()["rate_hz"])
        time.sleep(0.1)
    time.sleep(0.3)
    """
    with_us = run(tmp_path, source)
    found = functions(tmp_path)
    assert found["before"]["calls"] == 1 and found["after"]["calls"] == 2
    rates = {row["thread"] for row in report(tmp_path)["samples"] if row["name"] == "<module>"}
    assert rates == {"MainThread"}
    (tmp_path / "out").rename(tmp_path / "first")
    without = run(tmp_path, source, record=None)
    assert with_us.stdout == without.stdout == "(1, 1) (10, 10)\nTrue 50\n"
    reasons = list((tmp_path / "first").glob("kscope-recording.*"))
    assert reasons == []


TRAIN = """
import torch
from torch.utils.data import DataLoader, Dataset

class Noise(Dataset):
    def __len__(self):
        return 160
    def __getitem__(self, index):
        return torch.randn(8, generator=torch.Generator().manual_seed(index)), index % 2

def train():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for x, y in DataLoader(Noise(), batch_size=4, num_workers=2):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())

if __name__ == "__main__":
    train()
"""


@pytest.mark.torch
def test_training_is_the_same_to_the_last_bit(tmp_path):
    """With the workers of a loader, and a window of torch.profiler in it."""
    options = ("--steps", "5:1:6")
    with_us = run(tmp_path, TRAIN, *options, record="regions,functions,samples,monitor")
    document = report(tmp_path)
    found = functions(tmp_path)
    assert found["Noise.__getitem__"]["calls"] == 160, "in two workers"
    assert found["train"]["calls"] == 1
    assert len(document["steps"]) == 6 and document["operators"], "torch's rows lie beside"
    assert {row["name"] for row in document["samples"]} & {"train", "<module>"}
    (tmp_path / "out").rename(tmp_path / "first")
    without = run(tmp_path, TRAIN, "--stop-after", record=None)
    plain = subprocess.run(
        [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=300
    )
    assert with_us.stdout == plain.stdout and len(plain.stdout.split()) == 40
    assert plain.stdout.startswith(without.stdout)


@pytest.mark.torch
def test_stacks_of_the_program_s_own_profiler(tmp_path):
    """Before Python 3.12 one profiler sees calls: the program's gets them, then ours again."""
    run(
        tmp_path,
        """
        import torch
        def before(): pass
        def inside(): return torch.zeros(1) + 1
        def after(): pass
        before()
        with torch.profiler.profile(with_stack=True) as profiler:
            inside()
        for _ in range(3):
            after()
        profiler.export_chrome_trace(__file__ + ".json")
        """,
        record="functions",
    )
    trace = (tmp_path / "program.py.json").read_text()
    assert "program.py(4): inside" in trace, "its frames are in its trace"
    found = functions(tmp_path)
    assert found["before"]["calls"] == 1 and found["after"]["calls"] == 3


ONE_CLOCK = """
import kinetoscope as ks
import torch

around = ks.profile_operation("around", ks.categories.FORWARD_PASS)
weight = torch.nn.Parameter(torch.randn(64, 64))
optimizer = torch.optim.SGD([weight], lr=1e-3)
for step in range(60):
    data = torch.randn(64, 64)
    with around:
        product = data @ weight
    product.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def rows_of(tmp_path, statement):
    command = [KSCOPE, "query", "--json", tmp_path / "out", statement]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["rows"]


@pytest.mark.torch
def test_recordings_and_traces_are_on_one_clock(tmp_path):
    """A region lies around the operator that it was around, as torch's own clock has it."""
    run(tmp_path, ONE_CLOCK, "--steps", "5:1:20", "--no-stacks", record="regions,functions")
    document = report(tmp_path)
    (region,) = document["regions"]
    assert region["name"] == "around" and region["calls"] == 60, "of the whole run"
    assert len(document["steps"]) == 20 and len(document["inputs"]) == 2
    assert {row["rank"] for row in document["inputs"]} == {0}
    assert any(row["name"].endswith("Optimizer.zero_grad") for row in document["functions"])
    products = rows_of(
        tmp_path, "select ts_ns, dur_ns from slice where name = 'aten::mm' order by ts_ns"
    )
    regions = rows_of(
        tmp_path, "select ts_ns, dur_ns from slice where name = 'around' order by ts_ns"
    )
    # The backward pass has its products on another thread, or between two regions.
    slack_ns = 5000
    inside = [
        (max(at - begin, 0), max(begin + length - at - dur, 0))
        for at, dur in products
        for begin, length in regions
        if begin - slack_ns <= at and at + dur <= begin + length + slack_ns
    ]
    assert len(inside) == 20, "one in each recorded step"


RANKS = """
import torch.distributed as dist

def work():
    return sum(range(1000))

if __name__ == "__main__":
    dist.init_process_group("gloo")
    for _ in range(5):
        work()
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.torch
def test_each_rank_has_a_recording(tmp_path):
    """Those of torchrun, and its agent, which has no rank."""
    torchrun = ["-m", "torch.distributed.run", "--nproc_per_node=2"]
    run(tmp_path, RANKS, python=torchrun, record="functions,samples")
    document = report(tmp_path)
    assert sorted(row["rank"] for row in document["inputs"] if row["rank"] is not None) == [0, 1]
    assert len(document["inputs"]) == 3
    assert functions(tmp_path)["work"]["calls"] == 10, "of both"
    assert {row["rank"] for row in document["samples"]} >= {0, 1}


STALLS = """
import time
import kinetoscope as ks
import torch

save = ks.profile_operation("save weights", "checkpoint")
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(60):
    model(torch.randn(512, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 0:
        with save:
            time.sleep(0.25)
"""


@pytest.mark.torch
def test_a_stall_is_called_what_the_program_calls_it(tmp_path):
    run(tmp_path, STALLS, "--steps", "5:1:24", "--no-stacks", record="regions")
    found = {finding["id"]: finding for finding in report(tmp_path)["findings"]}
    stall = found["host.periodic_stall"]
    assert 'the region "save weights" (checkpoint)' in stall["fix"]["text"]
    evidence = {row["name"]: row["value"] for row in stall["evidence"]}
    assert evidence["period"] == 4
    assert 0.24e9 < evidence["region_longer_by"] < 0.4e9


BARE_CLONE = """
import ctypes, os, signal, sys, threading, time
import kinetoscope

NUMBER = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
libc = ctypes.PyDLL(None)  # keeps the interpreter's lock, which a child could not get

def work(n):
    with kinetoscope.profile_operation("work", "custom"):
        kinetoscope.marker("mark", n=n)
        return sum(range(n))

def clone():
    return libc.syscall(NUMBER, signal.SIGCHLD, 0, 0, 0, 0)

thread = threading.Thread(target=time.sleep, args=(0.1,))
thread.start()
for how in ("quit", "end", "quit"):
    if how == "end":
        thread.join()  # Python itself would wait for it in the child, too
    for i in range(50):
        work(i)
    child = clone()
    if child == 0:
        for i in range(1000):
            work(i)
        if how == "end":
            sys.exit(0)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, how
print("well")
"""


def test_children_by_a_bare_system_call(tmp_path):
    """Their fork handlers never ran: they have files of their own, or nothing, and no fault."""
    words = "regions,functions,samples,monitor"
    assert run(tmp_path, BARE_CLONE, record=words).stdout == "well\n"
    files = sorted((tmp_path / "out").glob("*.ksrec"))
    assert len(files) == 4
    calls = functions(tmp_path)["work"]["calls"]
    assert 150 < calls <= 150 + 3 * 1000
    regions = {row["name"]: row for row in report(tmp_path)["regions"]}
    assert regions["work"]["calls"] == 150 + 3 * 1000
