"""Goal: the stack sampler sees stacks that are possible, all threads, right shares of time, and
costs the program nothing that it would notice. Method: programs whose legal stacks are known from
their text, run by every interpreter of KSCOPE_TEST_PYTHONS (a list with colons) or by this one, and
their recordings, read by code of our own.
"""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import build_sampler
import pytest
import sampled_stacks
import sampler_oracle

HERE = pathlib.Path(__file__).parent
PYTHONS = os.environ.get("KSCOPE_TEST_PYTHONS", sys.executable).split(":")
SECONDS = 10 if os.environ.get("KSCOPE_TEST_SLOW") else 1
RATE_HZ = 1000
WRONG_SHARE_MAX = 0.01
# Python starts and ends threads by its own ways; it says so when forks and threads meet.
QUIET = dict(os.environ, PYTHONWARNINGS="ignore::DeprecationWarning")


@pytest.fixture(scope="session", params=PYTHONS)
def built(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sampler")
    return request.param, str(build_sampler.build(request.param, folder))


@pytest.fixture
def program(built, tmp_path):
    """Runs one of sampler_programs.py; the counts and all its recordings, the parent's first."""

    def run(name, seconds=SECONDS):
        python, folder = built
        words = [str(HERE / "sampler_programs.py"), folder, str(tmp_path), name, str(seconds)]
        done = subprocess.run(
            [python, *words, str(RATE_HZ)], capture_output=True, text=True, env=QUIET
        )
        assert (done.returncode, done.stderr) == (0, "")
        said = json.loads(done.stdout)
        others = sorted(set(map(str, tmp_path.glob("*.ksrec"))) - {said["path"]})
        return said["counts"], [sampled_stacks.read(path) for path in [said["path"], *others]]

    return run


@pytest.fixture
def snippet(built, tmp_path):
    """Runs a few lines that print one JSON document."""

    def run(text, **environment):
        python, folder = built
        file = tmp_path / "snippet.py"
        file.write_text("import json, os, sys, time\n" + textwrap.dedent(text))
        env = dict(QUIET, PYTHONPATH=folder, OUT=str(tmp_path), **environment)
        done = subprocess.run([python, str(file)], capture_output=True, text=True, env=env)
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    return run


def functions_of(recorded):
    return {frame.name for _, stack, _ in recorded.weights() for frame in stack}


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("hostile", {"a_leaf", "a_low", "b_leaf", "b_second"}),
        ("generators", {"generators"}),
        ("deep", {"d_down"}),
        ("objects", {"objects"}),
        ("made", {"made"}),
        ("many", {"parked"}),
        ("churn", {"churn"}),
    ],
)
def test_stacks_are_possible(program, capsys, name, seen):
    """`seen` are functions that last: on idle cores those of a microsecond are mostly torn."""
    counts, (recorded, *_) = program(name)
    looks, wrong, faults = sampler_oracle.judge(recorded)
    with capsys.disabled():
        torn = counts["torn"] / max(1, counts["torn"] + looks)
        print(f"\n{name}: {looks} stacks, {wrong} impossible, {torn:.1%} torn", end=" ")
    assert seen <= functions_of(recorded)
    assert wrong <= WRONG_SHARE_MAX * looks, faults
    assert recorded.sampler["torn"] == counts["torn"]
    assert looks == counts["samples"] == recorded.sampler["samples"]


def test_oracle_sees_impossible_stacks(program):
    """Frames of two stacks mixed are what torn reading would give."""
    _, (recorded, *_) = program("hostile")
    legal = sampler_oracle.Legal()
    stacks = [stack for _, stack, _ in recorded.weights() if len(stack) > 3]
    by_thread = [next(s for s in stacks if s[-1].name == name) for name in ("a_leaf", "b_leaf")]
    first, second = by_thread
    assert sampler_oracle.fault_of(first, legal) is None
    assert sampler_oracle.fault_of(first[:-1] + second[-1:], legal)
    assert sampler_oracle.fault_of(first[1:], legal)
    assert sampler_oracle.fault_of(first[:-2] + first[-1:], legal) or first[-2].name == "a_loop"


def test_depth_of_a_thousand_is_whole(program):
    _, (recorded, *_) = program("deep")
    depths = [sum(f.name == "d_down" for f in stack) for _, stack, _ in recorded.weights()]
    assert max(depths) == 1001


def test_shares_of_time_and_idle_threads(program):
    """Two thirds and one third within five points; the sleeper counts at every look."""
    counts, (recorded, *_) = program("shares", seconds=3)
    spent = {"s_long": 0, "s_short": 0, "s_sleep": 0}
    for _, stack, weight in recorded.weights():
        for frame in stack:
            if frame.name in spent:
                spent[frame.name] += weight
    share = spent["s_long"] / (spent["s_long"] + spent["s_short"])
    assert abs(share - 2 / 3) < 0.05
    assert 0.9 * counts["looks"] < spent["s_sleep"] <= counts["looks"]
    sleeping = [s for s in recorded.samples if recorded.stack(s.stack)[-1].name == "s_sleep"]
    idle = sum(s.weight for s in sleeping if not s.flags & sampled_stacks.RUNNING)
    assert idle > 0.9 * spent["s_sleep"]
    assert max(s.weight for s in sleeping) > 1
    assert not any(s.flags & sampled_stacks.HOLDS_GIL for s in sleeping)
    spinning = [s for s in recorded.samples if recorded.stack(s.stack)[-1].name == "s_spin"]
    holding = sum(bool(s.flags & sampled_stacks.HOLDS_GIL) for s in spinning)
    assert holding > 0.9 * len(spinning)


def test_threads_have_names(program):
    _, (recorded, *_) = program("many")
    assert set(recorded.threads.values()) >= {"MainThread", "parked 0", "parked 199"}
    tids = {sample.tid for sample in recorded.samples}
    assert {recorded.threads[tid] for tid in tids} >= {"MainThread", "parked 0", "parked 199"}


def test_a_forked_child_goes_on(program):
    counts, (parent, child) = program("forked")
    assert functions_of(parent) >= {"b_loop", "b_leaf"}
    assert "a_loop" not in functions_of(parent)
    assert functions_of(child) >= {"a_loop", "a_leaf", "forked"}
    assert "b_loop" not in functions_of(child)
    looks, wrong, faults = sampler_oracle.judge(child)
    assert looks > 0 and wrong == 0, faults
    assert child.threads == {next(iter({s.tid for s in child.samples})): "MainThread"}


def test_a_child_whose_sampler_speaks_first(snippet, tmp_path):
    """Its file begins with the first item of any thread; here that is a code object's, since the
    names of threads come late. Numbers of code objects and stacks must not begin anew in it."""
    snippet(
        """
        import threading
        from _kscope_sampler import StackSampler, start_recording, stop_recording

        current = threading.current_thread

        def late():
            time.sleep(0.1)
            return current()

        def spin():
            until = time.thread_time() + 0.2
            while time.thread_time() < until:
                pass

        start_recording(os.environ["OUT"])
        sampler = StackSampler(1000)
        sampler.start()
        spin()
        threading.current_thread = late
        pid = os.fork()
        spin()
        if pid == 0:
            StackSampler().stop()
            stop_recording()
            os._exit(0)
        os.waitpid(pid, 0)
        sampler.stop()
        stop_recording()
        print(json.dumps(0))
        """
    )
    paths = list(tmp_path.glob("*.ksrec"))
    assert len(paths) == 2
    for path in paths:  # what reads them refuses a number that is given twice
        assert functions_of(sampled_stacks.read(path)) >= {"spin", "<module>"}


def test_loader_workers_go_on(built, snippet, tmp_path):
    """Workers end without a word; what they wrote is there."""
    if built[0] != sys.executable:
        pytest.skip("torch is installed for the tests' own interpreter only")
    snippet(
        """
        from _kscope_sampler import StackSampler, start_recording
        import torch

        class Slow(torch.utils.data.Dataset):
            def __len__(self):
                return 40
            def __getitem__(self, index):
                until = time.thread_time() + 0.02
                while time.thread_time() < until:
                    pass
                return torch.zeros(2)

        start_recording(os.environ["OUT"])
        with StackSampler(1000):
            batches = list(torch.utils.data.DataLoader(Slow(), batch_size=4, num_workers=2))
        print(json.dumps(len(batches)))
        """
    )
    found = [functions_of(sampled_stacks.read(path)) for path in tmp_path.glob("*.ksrec")]
    assert len(found) == 3
    assert sum("Slow.__getitem__" in names for names in found) == 2


def test_life_of_a_sampler(snippet):
    said = snippet(
        """
        import threading
        from _kscope_sampler import StackSampler, start_recording, stop_recording
        said = {}
        start = threading.Thread.start
        sampler = StackSampler()
        said["before"] = [sampler.rate_hz, sampler.is_on]
        sampler.stop()
        sampler.start()
        time.sleep(0.1)
        said["unrecorded"] = sampler.counts()["looks"]
        try:
            StackSampler(10).start()
        except RuntimeError as error:
            said["twice"] = str(error)
        sampler.stop()
        said["restored"] = threading.Thread.start is start
        for rate in (0, 1001, -1):
            try:
                StackSampler(rate)
            except ValueError as error:
                said[f"rate {rate}"] = str(error)
        start_recording(os.environ["OUT"])
        for _ in range(20):
            with StackSampler(rate_hz=1000) as sampler:
                assert sampler.is_on
        with StackSampler(1) as sampler:
            begin = time.monotonic()
        said["seconds to stop"] = time.monotonic() - begin
        stop_recording()
        said["fds"] = len(os.listdir("/proc/self/fd"))
        print(json.dumps(said))
        """
    )
    assert said["before"] == [100, False]
    assert said["unrecorded"] == 0
    assert said["twice"] == "The stack sampler is on already."
    assert said["restored"]
    assert said["rate 1001"] == "rate_hz must be 1 to 1000, not 1001"
    assert {"rate 0", "rate -1"} <= set(said)
    assert said["seconds to stop"] < 0.5
    assert said["fds"] < 8


def test_its_thread_keeps_out_of_the_way(snippet):
    said = snippet(
        """
        import signal
        from _kscope_sampler import StackSampler, start_recording
        start_recording(os.environ["OUT"])
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        with StackSampler():
            time.sleep(0.2)
            for tid in os.listdir("/proc/self/task"):
                folder = f"/proc/self/task/{tid}"
                if open(folder + "/comm").read() == "kscope-sampler\\n":
                    status = open(folder + "/status").read()
                    nice = open(folder + "/stat").read().rsplit(")", 1)[1].split()[16]
        after = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        blocked = int(status.split("SigBlk:")[1].split()[0], 16)
        print(json.dumps({"blocked": blocked, "nice": int(nice) - os.nice(0),
                          "same": before == after}))
        """
    )
    for number in (2, 10, 12, 14, 15, 27):  # INT, USR1, USR2, ALRM, TERM, PROF
        assert said["blocked"] >> (number - 1) & 1
    assert said["nice"] == 5
    assert said["same"]


def test_profiled_by_monitoring_at_the_same_time(snippet):
    """Instructions that tools replace do not hide calls."""
    said = snippet(
        """
        from _kscope_sampler import StackSampler, start_recording, stop_recording
        path = start_recording(os.environ["OUT"])
        def leaf():
            return 1
        def top():
            return leaf() + leaf()
        events = []
        def trace(frame, event, arg):
            return trace
        sampler = StackSampler(1000)
        sampler.start()
        sys.settrace(trace)
        until = time.monotonic() + 1
        while time.monotonic() < until:
            top()
        sys.settrace(None)
        sampler.stop()
        stop_recording()
        print(json.dumps({"path": path, "counts": sampler.counts()}))
        """
    )
    recorded = sampled_stacks.read(said["path"])
    assert {"leaf", "top"} <= functions_of(recorded)
    assert said["counts"]["samples"] > 50
