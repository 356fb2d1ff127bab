"""Goal: ten times the events cost at most eleven times the work, whatever the shape of a trace.
Method: instructions that callgrind counts, which no other load changes, of `report --json` on one
shape of tools/gen_shapes.py in two sizes, less those of a trace with one event. Work that grows
with the square shows when a pair of events costs a twentieth of an instruction."""

import os
import re
import subprocess

import gen_shapes
import pytest
from kscope_program import PROGRAM

EVENTS = 1000
EVENTS_SLOW = 4000
FILES = 20
LIMIT = 11

# Thread with deep calls, no length, one launch, a track for each row, a name for each row; and what
# once grew with the square.
ALWAYS = [
    "deep_operators",
    "zero_length",
    "one_launch",
    "tracks",
    "names",
    "deep_frames",
    "engine_calls",
    "ended_regions",
    "updates",
    "copies_at_once",
    "loader_spans",
    "waits_in_steps",
    "round_trips",
    "with_stacks",
    "many_windows",
]
OTHERS = [name for name in gen_shapes.SHAPES if name not in ALWAYS]


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


def growth(tmp_path, name, events, command, *words):
    """How many times the work ten times the events are."""
    counts = []
    for shape, count in (("names", 1), (name, events), (name, 10 * events)):
        path = tmp_path / f"{shape}.{count}"
        gen_shapes.write(shape, count, path)
        counts.append(instructions(command, "--json", path, *words))
    start, small, large = counts
    return (large - start) / (small - start)


def check_report(tmp_path, name, events):
    ratio = growth(tmp_path, name, events, "report", "--threads", "1")
    assert ratio <= LIMIT, f"{name}: {ratio:.1f} times the work for ten times the events"


@pytest.mark.parametrize("name", ALWAYS)
def test_report_grows_with_the_events(tmp_path, name):
    check_report(tmp_path, name, FILES if name == "many_windows" else EVENTS)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("KSCOPE_TEST_SLOW"), reason="KSCOPE_TEST_SLOW is not set")
@pytest.mark.parametrize("name", OTHERS)
def test_report_grows_with_the_events_of_every_shape(tmp_path, name):
    check_report(tmp_path, name, EVENTS_SLOW)


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
