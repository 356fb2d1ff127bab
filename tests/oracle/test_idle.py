"""Goal: the causes of idle time add up to it, to the ns, and none is negative. Method: every trace
of tests/data, and every one of the folder that KSCOPE_TEST_CORPUS names; and a report in which one
ns of a cause is missing, which must show."""

import lzma
import os
import pathlib

import agreement
import pytest
import trace_random
import trace_text
from kscope_program import DATA, report
from twin import Twin

CORPUS = os.environ.get("KSCOPE_TEST_CORPUS")
FOLDERS = [DATA, *([pathlib.Path(CORPUS)] if CORPUS else [])]
TRACES = sorted(p for folder in FOLDERS for p in folder.glob("*.pt.trace.json*"))
SEEDS = range(400 if os.environ.get("KSCOPE_TEST_SLOW") else 40)
TOTALS = (("devices", "idle_ns"), ("streams", "gap_ns"), ("steps", "idle_ns"))


def unpacked(path, folder):
    if path.suffix != ".xz":
        return path
    out = folder / path.stem
    out.write_bytes(lzma.decompress(path.read_bytes()))
    return out


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_causes_add_up(path, tmp_path):
    doc = report(unpacked(path, tmp_path))
    wrong = agreement.holds_together(doc)
    assert not wrong, "\n".join(wrong[:20])
    assert any(row["idle_ns"] > 0 for row in doc["steps"]), "a trace without any idle time"


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_waits(seed, tmp_path):
    """Equal to the twin where the host waits for all kinds of things."""
    paths = []
    for index, trace in enumerate(trace_random.draw_waits(seed)):
        paths.append(tmp_path / f"{index}.json")
        whole_us = trace["plan"].unit_ns == 1000
        paths[-1].write_bytes(trace_text.render(trace, "compact", whole_us))
    doc = report(*paths)
    wrong = agreement.idle(doc, Twin(paths)) + agreement.holds_together(doc)
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize(("key", "total"), TOTALS)
def test_missing_nanosecond_shows(key, total):
    doc = report(DATA / "A.churn.bad.pt.trace.json.gz")
    assert not agreement.holds_together(doc)
    doc[key][0]["idle_by_cause_ns"]["launch"] -= 1
    assert agreement.holds_together(doc), total


def test_step_filter_changes_no_step():
    """What a step waited for does not depend on which others are shown."""
    path = DATA / "A.dataloader.bad.pt.trace.json.gz"
    whole, some = report(path), report("--step", "3..4", path)
    key = "idle_by_cause_ns"
    causes = {step["number"]: step[key] for step in whole["steps"]}
    assert len(some["steps"]) == 2
    for step in some["steps"]:
        assert step["idle_ns"] == sum(step[key].values())
        assert step[key]["data"] == causes[step["number"]]["data"]
    for row, total in (("devices", "idle_ns"), ("streams", "gap_ns")):
        assert all(sum(one[key].values()) == one[total] for one in some[row])


def test_other_device_filter():
    """A filter for a device that is not there leaves no device rows, and all of the step idle."""
    doc = report("--device", "7", DATA / "A.churn.bad.pt.trace.json.gz")
    assert doc["devices"] == [] and not agreement.holds_together(doc)
    assert all(step["idle_ns"] == step["dur_ns"] for step in doc["steps"])
