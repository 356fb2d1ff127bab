"""Goal: ten times the events cost at most eleven times the work, whatever the shape of a trace.
Method: instructions that callgrind counts, which no other load changes, of `report --json` on one
shape of tools/gen_shapes.py in two sizes, less those of a trace with one event. Work that grows
with the square shows when a pair of events costs a twentieth of an instruction."""

import functools
import pathlib
import re
import subprocess
import tempfile

import gen_shapes
import pytest
from kscope_program import PROGRAM

EVENTS = 1000
FILES = 20
LIMIT = 11

# Files; and text in which reading goes on behind a fault for a bounded way, that fewer do not fill.
SIZES = {"many_windows": FILES, "open_braces": 4000}


def instructions(*arguments):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", PROGRAM]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def work(folder, name, events, command, *words):
    path = folder / f"{name}.{events}"
    gen_shapes.write(name, events, path)
    return instructions(command, "--json", path, *words)


@functools.cache
def work_of_one(command, *words):
    with tempfile.TemporaryDirectory() as folder:
        return work(pathlib.Path(folder), "names", 1, command, *words)


def growth(tmp_path, name, events, command, *words):
    """How many times the work ten times the events are."""
    small, large = (work(tmp_path, name, count, command, *words) for count in (events, 10 * events))
    start = work_of_one(command, *words)
    return (large - start) / (small - start)


def check_report(tmp_path, name, events):
    ratio = growth(tmp_path, name, events, "report", "--threads", "1")
    assert ratio <= LIMIT, f"{name}: {ratio:.1f} times the work for ten times the events"


@pytest.mark.parametrize("name", [*gen_shapes.SHAPES, *gen_shapes.FOLDERS])
def test_report_grows_with_the_events(tmp_path, name):
    check_report(tmp_path, name, SIZES.get(name, EVENTS))


# What a comparison adds work to.
COMPARED = ["steps", "names", "kernel_names", "devices"]


@pytest.mark.parametrize("name", COMPARED)
def test_a_comparison_grows_with_the_events(tmp_path, name):
    """With itself: each row has a partner to be found."""
    words = ["--threads", "1", "--group-by", "shape"]
    counts = []
    for events in (1, EVENTS, 10 * EVENTS):
        path = tmp_path / f"{name}.{events}"
        gen_shapes.write(name, events, path)
        counts.append(instructions("diff", "--json", "--no-cache", *words, path, path))
    start, small, large = counts
    assert (large - start) / (small - start) <= LIMIT


def test_reading_many_files_grows_with_their_number(tmp_path):
    """A report of a folder reads the last windows; info reads all."""
    assert growth(tmp_path, "many_windows", FILES, "info") <= LIMIT


def test_a_query_grows_with_the_events(tmp_path):
    sql = "select name, count(*), sum(dur_ns) from slice where dur_ns > 0 group by name"
    assert growth(tmp_path, "names", EVENTS, "query", sql) <= LIMIT


def test_the_square_is_noticed(tmp_path):
    """The measure is no good unless it says so of work that does grow with the square."""
    sql = "select count(*) from slice a, slice b where a.dur_ns < b.dur_ns"
    assert growth(tmp_path, "names", EVENTS // 20, "query", sql) > LIMIT
