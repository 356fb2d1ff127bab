"""Call paths of the function profiler in a recording: what stats() says, and what a kill leaves."""

import collections
import json
import mmap
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import textwrap
import time

import build_extension
import function_paths
import pytest
from build_extension import PYTHON

HERE = pathlib.Path(__file__).parent
KILLS = 200 if os.environ.get("KSCOPE_TEST_SLOW") else 20

PRELUDE = """
import json, os, sys, threading, time
from kinetoscope import FunctionProfiler, start_recording, stop_recording

def counts(stats):
    return {name: value[1] for (file, line, name), value in stats.items()}

def say(**found):
    print(json.dumps(found))
"""


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    quiet = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}  # forks beside threads are the point
    return build_extension.environment(tmp_path_factory.mktemp("extension")) | quiet


@pytest.fixture
def run(environment, tmp_path):
    """Runs a program, which must end well and quietly; what it says, and its recordings."""

    def run_program(program):
        file = tmp_path / "program.py"
        file.write_text(PRELUDE + textwrap.dedent(program))
        done = subprocess.run(
            [PYTHON, str(file)], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout), [
            function_paths.read(path) for path in sorted(tmp_path.glob("*/*.ksrec"))
        ]

    return run_program


def test_the_recording_has_the_counts_of_stats(run):
    said, (profile,) = run("""
        import function_programs
        start_recording("out")
        profiler = FunctionProfiler()
        with profiler:
            for program in function_programs.PROGRAMS[:9]:
                program()
        stop_recording()
        found = {f"{f}:{n}:{c}": v[1] for (f, n, c), v in profiler.stats().items()}
        say(counts=found, paths=profiler.paths)
    """)
    found = collections.Counter()
    for path in profile.paths:
        name, file, line = path.code
        name = name if file == "~" else re.split(r"\.(?=\w|<l|<g|<s|<d)", name)[-1]
        found[f"{file}:{line}:{name}"] += path.calls
    assert found == said["counts"]
    assert len(profile.paths) == said["paths"]
    assert len({path.tid for path in profile.paths}) == 9  # this one, and those of a program
    assert all(path.open == 0 for path in profile.paths)
    fib = next(p for p in profile.paths if p.names[-2:] == ("recursive", "recursive.<locals>.fib"))
    assert fib.calls == 1
    assert ("recursive.<locals>.fib", str(HERE / "function_programs.py")) in {
        code[:2] for code in profile.codes.values()
    }


def test_ids_of_code_are_odd(run):
    _, (profile,) = run("""
        start_recording("out")
        with FunctionProfiler(): sorted([2, 1], key=lambda x: x)
        say()
    """)
    assert profile.codes and all(ident % 2 == 1 for ident in profile.codes)


def test_times_of_children_are_in_their_parents(run):
    said, (profile,) = run("""
        start_recording("out")
        def inner(): time.sleep(0.01)
        def outer():
            for _ in range(3): inner()
        with FunctionProfiler() as profiler: outer()
        say()
    """)
    paths = {path.names: path for path in profile.paths}
    outer, inner = paths[("outer",)], paths[("outer", "inner")]
    sleep = paths[("outer", "inner", "<built-in method time.sleep>")]
    assert outer.child_ticks == inner.total_ticks and inner.child_ticks == sleep.total_ticks
    assert outer.total_ticks >= inner.total_ticks >= sleep.total_ticks > 0
    assert (outer.calls, inner.calls, sleep.calls) == (1, 3, 3)


def test_what_the_profiler_was_like_is_recorded(run):
    said, (profile,) = run("""
        start_recording("out")
        with FunctionProfiler(c_calls=False): time.sleep(0.01)
        say(new=sys.version_info >= (3, 12))
    """)
    started, stopped = profile.functions
    assert started[:3] == stopped[:3]
    assert started[:2] == (0, 2 if said["new"] else 1)
    assert started[2] > 0 and started[4] == 0
    assert stopped[4] > stopped[3] == started[3] > 0


def test_a_killed_program_leaves_what_it_counted(environment, tmp_path):
    """The program counts its own calls in a file; the recording is off by one at most."""
    file = tmp_path / "program.py"
    file.write_text(
        PRELUDE
        + textwrap.dedent("""
        import ctypes, mmap
        with open("counted", "r+b") as file:
            # One store; struct.pack_into() would write zeros first, and be killed behind them.
            cell = ctypes.c_uint64.from_buffer(mmap.mmap(file.fileno(), 8))
        done = [0]
        def counted():
            done[0] += 1
            cell.value = done[0]
        def outer():
            for _ in range(3): counted()
        start_recording("out")
        FunctionProfiler(c_calls=False).start()
        while True: outer()
    """)
    )
    random.seed(1)
    for turn in range(KILLS):
        folder = tmp_path / f"turn{turn}"
        folder.mkdir()
        with open(folder / "counted", "w+b") as counter:
            counter.write(bytes(8))
            counter.flush()
            memory = mmap.mmap(counter.fileno(), 8)
        program = subprocess.Popen([PYTHON, str(file)], env=environment, cwd=folder)
        while struct.unpack_from("<Q", memory, 0)[0] == 0 and program.poll() is None:
            time.sleep(0.001)
        time.sleep(random.random() / 20)
        program.send_signal(signal.SIGKILL)
        program.wait()
        (recording,) = (folder / "out").glob("*.ksrec")
        profile = function_paths.read(recording)
        paths = {path.names[-1]: path for path in profile.paths}
        done = struct.unpack_from("<Q", memory, 0)[0]
        assert done > 0 and profile.state == 0
        assert 0 <= paths["counted"].calls - done <= 1
        assert 0 <= 3 * paths["outer"].calls - done <= 3
        assert paths["outer"].open in (0, 1)
        recording.unlink()


def test_a_forked_child_begins_anew_in_its_own_file(run):
    said, profiles = run("""
        def parent_only(): pass
        def both(): pass
        def child_only(): pass
        def late(): pass
        start_recording("out")
        profiler = FunctionProfiler()
        profiler.start()
        thread = threading.Thread(target=lambda: [both() for _ in range(5)])
        thread.start()
        thread.join()
        parent_only()
        def forks():
            pid = os.fork()
            both()
            return pid
        pid = forks()
        if pid == 0:
            child_only()
            child_only()
            profiler.stop()
            assert counts(profiler.stats())["child_only"] == 2
            assert "parent_only" not in counts(profiler.stats())
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        late()
        profiler.stop()
        say(status=status, pid=os.getpid(), child=pid, **counts(profiler.stats()))
    """)
    by_pid = {profile.pid: profile for profile in profiles}
    parent, child = by_pid[said["pid"]], by_pid[said["child"]]
    assert said["status"] == 0
    assert said["both"] == parent.calls("both") == 6
    assert parent.calls("parent_only") == parent.calls("late") == 1
    assert parent.calls("child_only") == 0
    assert child.calls("both") == 1 and child.calls("child_only") == 2
    assert child.calls("parent_only") == 0
    assert child.functions[-1][4] > 0


def test_workers_of_a_pool_have_their_own_files(run):
    said, profiles = run("""
        import multiprocessing
        def job(n): return n
        start_recording("out")
        profiler = FunctionProfiler()
        profiler.start()
        with multiprocessing.get_context("fork").Pool(3) as pool:
            pool.map(job, range(90), chunksize=1)
        profiler.stop()
        say(pid=os.getpid())
    """)
    assert sum(p.calls("job") for p in profiles) == 90
    assert len({p.pid for p in profiles}) == len(profiles) == 4


def test_another_recording_while_it_is_on(run):
    said, profiles = run("""
        def first(): pass
        def second(): pass
        start_recording("one")
        profiler = FunctionProfiler()
        profiler.start()
        other = threading.Thread(target=lambda: (first(), go.wait(), second()))
        go = threading.Event()
        other.start()
        first()
        stop_recording()
        start_recording("two")
        second()
        go.set()
        other.join()
        profiler.stop()
        say(**counts(profiler.stats()))
    """)
    one, two = sorted(profiles, key=lambda profile: profile.calls("second"))
    assert one.calls("first") == 2 and one.calls("second") == 0
    assert two.calls("first") == 0 and two.calls("second") == 2
    assert said["second"] == said["first"] == 2


def test_a_recording_that_is_full(run):
    said, (profile,) = run("""
        start_recording("out", max_bytes=1 << 20)
        profiler = FunctionProfiler(c_calls=False)
        def go():
            for i in range(12000):
                names = {}
                exec(f"def made{i}(): pass", names)
                names[f"made{i}"]()
        profiler.start()
        go()
        profiler.stop()
        say(**counts(profiler.stats()))
    """)
    assert all(said[f"made{i}"] == 1 for i in range(12000))
    named = [path for path in profile.paths if path.names[-1].startswith("made")]
    assert 100 < len(named) < 12000


def test_a_profiler_that_was_on_before_stays_in_memory(run):
    said, (profile,) = run("""
        def counted(): pass
        profiler = FunctionProfiler()
        profiler.start()
        counted()
        start_recording("out")
        counted()
        profiler.stop()
        with profiler: counted()
        say(**counts(profiler.stats()))
    """)
    assert said["counted"] == 3
    assert profile.calls("counted") == 1


def test_stats_outlive_the_recording(run):
    said, (profile,) = run("""
        def counted(): time.sleep(0.001)
        start_recording("out")
        profiler = FunctionProfiler()
        profiler.start()
        counted()
        stop_recording()
        counted()
        profiler.stop()
        ((_, own),) = [(k, v[3]) for k, v in profiler.stats().items() if k[2] == "counted"]
        profiler.clear()
        say(own=own, empty=len(profiler.stats()))
    """)
    assert 0.002 <= said["own"] < 0.2 and said["empty"] == 0
    assert profile.calls("counted") == 1 and profile.state == 1


def test_the_reader_knows_the_checksum():
    assert function_paths.crc32c(b"123456789") == 0xE3069283
