"""Goal: whatever ends a program, its recording has all that was published, and nothing torn.

Method: recorder_writer.c tells in shared memory how many events each thread has published; then it
is killed, crashes, leaves, forks, or has no room. recording.py reads the file without our code. The
events of a thread carry the numbers 0, 1, 2, ..., so one that is missing or twice there is seen.
"""

import functools
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import time
from collections import Counter

import pytest
import recording
from write_recording import CLOSED, MARK, OFF, RUNNING

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KSCOPE_BIN", ROOT / "build" / "kscope")).resolve().parent
WRITER = BUILD / "tests" / "unit" / "recorder_writer"
KILLS = 1000 if os.environ.get("KSCOPE_TEST_SLOW") else 50
HANDLED = 1 << 32  # added to what a signal handler says


class Run:
    def __init__(self, folder, mode, *words, **options):
        self.folder = pathlib.Path(folder)
        self.board = self.folder / "board"
        command = [str(WRITER), mode, str(self.folder), str(self.board), *map(str, words)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)

    def end(self):
        self.said = self.process.communicate(timeout=100)[1]
        return self.process.returncode

    def writers(self):
        """(tid, published) of each."""
        count, _, *rest = struct.unpack(f"<{2 + 2 * 512}Q", self.board.read_bytes())
        return list(zip(rest[::2], rest[1::2], strict=True))[: min(count, 512)]

    @functools.cached_property
    def recordings(self):
        return recording.read_folder(self.folder)

    def only(self):
        (found,) = self.recordings.values()
        return found


def run_to_its_end(folder, mode, *words, status=0, **options):
    run = Run(folder, mode, *words, **options)
    assert run.end() == status, run.said
    return run


def by_tid(writers):
    """A thread may have written twice, before and after its process did something."""
    found = {}
    for tid, published in writers:
        found.setdefault(tid, []).append(published)
    return found


def check_all_there(run, unfinished=0):
    """Each number of each writer once, in order; at most `unfinished` more than was counted."""
    values = {}
    for one in run.recordings.values():
        for tid in one.events:
            values.setdefault(tid, []).extend(one.values(tid))
    for tid, counts in by_tid(run.writers()).items():
        got = values.pop(tid, [])
        if len(counts) == 1:
            assert got == list(range(len(got))), f"thread {tid}"
            assert counts[0] <= len(got) <= counts[0] + unfinished, f"thread {tid}"
        else:
            assert got == [i for count in counts for i in range(count)], f"thread {tid}"
    assert not any(values.values())


def check_untorn(one):
    assert one.lost == 0 and one.items_lost == 0
    assert all(slot.lost == 0 for slot in one.slots)


# ---------------------------------------------------------------- ends


def kill_at_random(rng, run):
    while not list(run.folder.glob("*.ksrec")):
        time.sleep(0.001)
    time.sleep(rng.random() ** 2 * 0.05)
    run.process.send_signal(signal.SIGKILL)
    assert run.end() == -signal.SIGKILL


def test_killed_at_any_moment(tmp_path):
    rng = random.Random(5)
    published = 0
    for number in range(KILLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        run = Run(folder, "endless")
        kill_at_random(rng, run)
        check_untorn(run.only())
        check_all_there(run, unfinished=1)
        assert run.only().state == RUNNING and run.only().torn <= 4
        published += sum(count for _, count in run.writers())
        shutil.rmtree(run.folder)
    assert published > 100 * KILLS


@pytest.mark.parametrize(
    "mode, status, state",
    [
        ("return", 0, CLOSED),
        ("stop", 0, CLOSED),
        ("_exit", 0, RUNNING),
        ("segv", -signal.SIGSEGV, RUNNING),
        ("exec", 0, RUNNING),
    ],
)
def test_ends(tmp_path, mode, status, state):
    run = run_to_its_end(tmp_path, mode, 20000, status=status)
    check_untorn(run.only())
    check_all_there(run)
    assert len(run.writers()) == 4 and run.only().state == state
    assert run.only().torn == 0


def test_threads_go_on_while_the_process_ends(tmp_path):
    """What they write behind the end is not there, and nothing else is missing."""
    run = run_to_its_end(tmp_path, "meanwhile")
    one = run.only()
    assert one.state == CLOSED
    for tid, _ in run.writers():
        values = one.values(tid)
        assert values and values == list(range(len(values)))


# ---------------------------------------------------------------- forks


def test_forks_in_threads(tmp_path):
    """Five children, forked while others write, and a grandchild have files of their own."""
    run = run_to_its_end(tmp_path, "fork", 3000)
    recordings = run.recordings
    for one in recordings.values():
        check_untorn(one)
    check_all_there(run)
    assert len(recordings) == 7 and len(run.writers()) == 2 + 1 + 6 * 3
    parents = Counter(one.parent_pid for one in recordings.values())
    assert parents[run.process.pid] == 5
    assert recordings[run.process.pid].state == CLOSED


def test_a_child_that_says_nothing_has_no_file(tmp_path):
    run = run_to_its_end(tmp_path, "fork_silent", 1000)
    check_all_there(run)
    assert list(run.recordings) == [run.process.pid]


# ---------------------------------------------------------------- forks that tell nobody


def check_times(one):
    """Regions have times of the recording's clock, also the first one of a child, which comes a
    moment before its file."""
    second = one.tick_khz * 1000
    regions = one.regions()
    assert {name for _, (name, _), _, _ in regions} == {"before", "after"}
    for _, _, begin, end in regions:
        assert one.start_tick - second <= begin <= end <= one.start_tick + 100 * second


def test_bare_clones_in_threads(tmp_path):
    """Twenty children and a grandchild by clone() and _Fork(), which call no handler, while others
    write and name things: each has a file of its own, and nobody's is harmed."""
    run = run_to_its_end(tmp_path, "clone", 2000)
    recordings = run.recordings
    for one in recordings.values():
        check_untorn(one)
    check_all_there(run)
    assert len(recordings) == 22 and len(run.writers()) == 2 + 21 + 1
    assert Counter(one.parent_pid for one in recordings.values())[run.process.pid] == 20
    own = recordings.pop(run.process.pid)
    assert own.state == CLOSED and len(own.sites) > 10
    for one in recordings.values():
        check_times(one)
        assert one.state == RUNNING and len(one.clocks) >= 1
        assert {("before", "parent"), ("after", "child")} <= set(one.sites.values())


def test_bare_clones_that_exit(tmp_path):
    """Destructors end the child's recording, and never the parent's."""
    run = run_to_its_end(tmp_path, "clone_exit", 5000)
    check_all_there(run)
    assert len(run.recordings) == 2
    assert all(one.state == CLOSED for one in run.recordings.values())


def test_bare_clone_with_our_descriptors(tmp_path):
    """The parent needs its own for more room: 400,000 events are six MiB."""
    run = run_to_its_end(tmp_path, "clone_files", 200_000)
    for one in run.recordings.values():
        check_untorn(one)
    check_all_there(run)
    assert len(run.recordings) == 2


def test_bare_clone_with_our_memory(tmp_path):
    run = run_to_its_end(tmp_path, "clone_memory", 5000)
    one = run.only()
    check_untorn(one)
    marks = [event for events in one.events.values() for event in events if event[2] == MARK]
    assert len(marks) == 1 + 5000 and one.state == CLOSED
    values = [value for tid in one.events for value in one.values(tid)]
    assert Counter(values) == dict.fromkeys(range(5000), 2)


def test_a_program_closes_our_descriptor(tmp_path):
    """The number becomes a file of the program, which is none of ours."""
    run = run_to_its_end(tmp_path, "daemon", 100_000)
    check_untorn(run.only())
    check_all_there(run)
    assert run.only().state == CLOSED
    own = list(tmp_path.glob("own*"))
    assert len(own) == 61 and all(file.stat().st_size == 0 for file in own)


# ---------------------------------------------------------------- no room


def check_rest_is_lost(run):
    """What is not there has been counted."""
    one = run.only()
    kept = 0
    for tid, published in run.writers():
        values = one.values(tid)
        assert values == sorted(set(values)) and len(values) <= published
        kept += len(values)
    total = sum(published for _, published in run.writers())
    assert kept > 100_000 and 0 < one.lost == total - kept
    return one


def test_file_at_its_limit(tmp_path):
    run = run_to_its_end(tmp_path, "return", 100_000, 4 << 20)
    assert check_rest_is_lost(run).state == CLOSED
    (file,) = tmp_path.glob("*.ksrec")
    assert file.stat().st_size <= 4 << 20


def test_file_size_limit_of_the_process(tmp_path):
    run = run_to_its_end(tmp_path, "full", 100_000)
    check_rest_is_lost(run)
    (file,) = tmp_path.glob("*.ksrec")
    assert file.stat().st_size <= 4 << 20


def mount_small(folder):
    command = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True).returncode == 0


def test_full_disk(tmp_path):
    """A file system of 6 MiB where one may be made; else the limit of the process stands for it."""
    is_mounted = os.geteuid() == 0 and mount_small(tmp_path)
    try:
        run = run_to_its_end(tmp_path, "return" if is_mounted else "full", 100_000)
        check_rest_is_lost(run)
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_no_room_at_all(tmp_path):
    limit = (1 << 16, 1 << 16)
    run = run_to_its_end(
        tmp_path, "return", 100, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    )
    assert run.said == "not recording: no room on the disk for a recording\n"
    assert [file.name for file in tmp_path.iterdir()] == ["board"]


def test_folder_that_cannot_be_written(tmp_path):
    board = tmp_path / "board"
    for folder, reason in [("/proc", "No such file or directory"), (board, "Not a directory")]:
        command = [str(WRITER), "return", str(folder), str(board), "100"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0
        said = f"not recording: cannot make a file in the folder: {reason}\n"
        assert done.stderr == said


def test_file_truncated_under_the_map(tmp_path):
    """The store that finds no file behind it is no end of the program."""
    run = run_to_its_end(tmp_path, "truncated", 20_000)
    (file,) = tmp_path.glob("*.ksrec")
    assert sum(published for _, published in run.writers()) == 220_000
    assert file.stat().st_size <= 1 << 20


# ---------------------------------------------------------------- threads and signals


def test_many_threads(tmp_path):
    run = run_to_its_end(tmp_path, "many", 500)
    check_untorn(run.only())
    check_all_there(run)
    assert len(run.writers()) == 200


def test_short_threads(tmp_path):
    """Lanes are taken again when their threads are gone; no thread writes into another's slot."""
    run = run_to_its_end(tmp_path, "churn", 2000)
    one = run.only()
    check_untorn(one)
    values = [value for tid in one.events for value in one.values(tid)]
    assert Counter(values) == dict.fromkeys(range(10), 2000)


def test_signal_handlers_record(tmp_path):
    """Those in the middle of the recorder lose their event, which is counted."""
    run = run_to_its_end(tmp_path, "signals", 200_000)
    one = run.only()
    (signals, own) = (published for _, published in run.writers())
    (values,) = (one.values(tid) for tid in one.events)
    assert [value for value in values if value < HANDLED] == list(range(own))
    handled = [value - HANDLED for value in values if value >= HANDLED]
    assert handled == sorted(set(handled)) and signals > 10
    assert len(handled) + one.lost == signals


def test_started_again_while_threads_write(tmp_path):
    run = run_to_its_end(tmp_path, "restart")
    files = [recording.read(file) for file in tmp_path.glob("*.ksrec")]
    assert len(files) == 21 and all(one.state == CLOSED for one in files)
    for tid, published in run.writers():
        values = [value for one in files for value in one.values(tid)]
        assert len(values) == len(set(values)) <= published
        for one in files:
            assert one.values(tid) == sorted(one.values(tid))
    assert all(one.state != OFF for one in files)
