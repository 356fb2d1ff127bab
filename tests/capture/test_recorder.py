"""Goal: whatever ends a process, what it had recorded is there, and nothing that it had not.

Method: a small C program records regions and ends in all ways; the engine reads the files in strict
mode wherever that must succeed. test_kills.py kills programs at any moment.
"""

import json
import os
import pathlib
import resource
import signal
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KSCOPE = pathlib.Path(os.environ.get("KSCOPE_BIN", ROOT / "build" / "kscope"))
PROGRAM = KSCOPE.parent / "capture" / "record_regions"


def run(folder, mode, count=1000):
    command = [PROGRAM, mode, folder, str(count)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def recordings(folder):
    return sorted(folder.glob("*.ksrec"))


def query(path, statement):
    command = [KSCOPE, "query", "--json", "--no-cache", path, statement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["rows"]


def regions(path):
    """Calls by name of what begins and ends, and how many have no end."""
    return dict(query(path, "select name, count(*) from slice group by name order by name"))


def source(path, *options):
    command = [KSCOPE, "info", "--json", *options, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["inputs"]
    return row


def counts(path):
    return {row["name"]: row["count"] for row in source(path)["counters"]}


def test_threads(tmp_path):
    done = run(tmp_path, "threads", 20000)
    assert done.returncode == 0, done.stderr
    (path,) = recordings(tmp_path)
    assert done.stdout == f"{path}\n"
    assert regions(path) == {"inner": 80000, "outer": 80000}
    assert source(path, "--strict")["rank"] == 3
    assert not counts(path)
    (row,) = query(
        path, "select sum(dur_ns * (case name when 'inner' then -1 else 1 end)) from slice"
    )
    assert row[0] > 0  # the inner ones lie in the outer ones
    assert not list(tmp_path.glob("*.tmp"))


def test_many_short_threads(tmp_path):
    run(tmp_path, "short_threads", 300)
    (path,) = recordings(tmp_path)
    assert regions(path) == {"inner": 300, "outer": 300} and not counts(path)


def test_children_have_files_of_their_own(tmp_path):
    done = run(tmp_path, "children", 3000)
    assert done.returncode == 0
    own, *_ = (pathlib.Path(line) for line in done.stdout.splitlines())
    children = [path for path in recordings(tmp_path) if path != own]
    assert len(children) == 2
    assert regions(own) == {"inner": 6000, "outer": 6000} and not counts(own)
    for path in children:
        assert regions(path) == {"inner": 3000, "outer": 3000}
        assert counts(path) == {"recording_unclosed": 1}  # they left by _exit
        assert path.name.rsplit("-", 1)[1] != own.name.rsplit("-", 1)[1]


def test_a_child_that_says_nothing_has_none(tmp_path):
    run(tmp_path, "silent")
    assert len(recordings(tmp_path)) == 1


@pytest.mark.parametrize(("mode", "status"), [("exec", 0), ("crash", -signal.SIGSEGV), ("exit", 7)])
def test_ends_without_a_word(tmp_path, mode, status):
    assert run(tmp_path, mode, 5000).returncode == status
    (path,) = recordings(tmp_path)
    assert regions(path) == {"inner": 5000, "outer": 5000}
    assert counts(path) == {"recording_unclosed": 1}


def test_another_start_is_another_file(tmp_path):
    run(tmp_path, "again", 100)
    first, second = sorted(recordings(tmp_path), key=lambda path: path.name.rsplit("-", 2)[1])
    assert regions(first) == {"inner": 100, "outer": 100} and not counts(first)
    assert regions(second) == {"inner": 200, "outer": 200} and not counts(second)


@pytest.mark.parametrize("mode", ["limit", "file_limit"])
def test_a_file_at_its_limit(tmp_path, mode):
    done = run(tmp_path, mode, 50000)
    assert done.returncode == 0, done.stderr
    (path,) = recordings(tmp_path)
    lost = int(done.stdout.split()[-1])
    seen = regions(path)
    found = counts(path)
    open_ones = found.get("regions_unfinished", 0)
    # Four events a region pair; those whose end was lost are there, too.
    assert lost > 0 and found["events_lost"] == lost
    assert 2 * sum(seen.values()) - open_ones + lost == 4 * 50000
    assert path.stat().st_size <= (1 << 20) * (1 if mode == "limit" else 2)


def test_a_file_that_is_cut_while_it_is_mapped(tmp_path):
    done = run(tmp_path, "cut", 5000)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "on 0"
    (path,) = recordings(tmp_path)
    assert source(path)["status"] == "truncated"


def test_signal_handlers_may_record(tmp_path):
    assert run(tmp_path, "handler", 200000).returncode == 0
    (path,) = recordings(tmp_path)
    seen = regions(path)
    found = counts(path)
    # A handler that comes while its thread has the recorder's lock loses both of its events.
    assert found.pop("events_lost", 0) % 2 == 0 and not found
    assert seen["outer"] == 200000 and seen["inner"] >= 1


def test_values_and_marks(tmp_path):
    run(tmp_path, "values")
    (path,) = recordings(tmp_path)
    assert regions(path) == {"block": 3}
    rows = query(path, "select name, value from mark order by ts_ns")
    assert [row[1] for row in rows if row[0] == "loss"] == [0.0, 0.5, 1.0]
    assert sum(row[0] == "outer" for row in rows) == 3


def test_without_a_recorder_nothing_happens(tmp_path):
    done = run(tmp_path, "nothing", 1000)
    assert (done.returncode, recordings(tmp_path)) == (0, [])


def test_a_folder_that_cannot_be_written(tmp_path):
    done = run(tmp_path / "missing", "threads", 10)
    assert done.returncode == 0
    assert done.stdout.startswith("not recorded: cannot make a file in the folder: No such file")


def test_a_full_disk(tmp_path):
    """A file system of a megabyte, where that may be made."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1536k", "tmpfs", place],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:  # not root: a limit of the process stands for the disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (1536 << 10, resource.RLIM_INFINITY))
    try:
        done = run(place, "threads", 50000)
        assert done.returncode == 0, done.stderr
        (path,) = recordings(place)
        assert counts(path)["events_lost"] > 0
        assert sum(regions(path).values()) > 10000
    finally:
        subprocess.run(["umount", place], capture_output=True, check=False)
