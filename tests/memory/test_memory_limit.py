"""Goal: the memory for tables changes no byte of a report. Method: the same trace with all the
memory it likes and with 1 MiB, where most of it goes through a file."""

import pathlib
import re

import pytest
from kscope_program import DATA, report_bytes, run

TRACES = sorted(p.name for p in DATA.glob("*.pt.trace.json.gz"))


@pytest.mark.parametrize("name", TRACES)
def test_one_mebibyte_gives_the_same_bytes(name):
    options = ("--group-by", "shape", "--all-rows", DATA / name)
    assert report_bytes("--memory", "1M", *options) == report_bytes(*options)


def spilled_bytes(path: pathlib.Path, memory: str) -> int:
    result = run("report", "--json", "--verbose", "--memory", memory, path)
    assert result.returncode == 0
    return int(re.search(rb"(\d+) bytes went to a file", result.stderr).group(1))


def test_one_mebibyte_is_too_little_for_a_real_trace():
    """The test above would pass as well if nothing ever left memory."""
    assert spilled_bytes(DATA / "A.dataloader.bad.pt.trace.json.gz", "1M") > 1 << 20


def test_a_gibibyte_is_enough():
    assert spilled_bytes(DATA / "A.dataloader.bad.pt.trace.json.gz", "1G") == 0


def test_two_ranks_with_little_memory():
    paths = sorted(DATA.glob("D.straggler.bad.rank*.pt.trace.json.gz"))
    assert len(paths) == 2
    assert report_bytes("--memory", "1M", *paths) == report_bytes(*paths)
