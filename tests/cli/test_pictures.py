"""Goal: pictures of a report are valid SVG that says the report's numbers. Method: pictures of real
traces are parsed, and their bars and words compared with the JSON document."""

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree

import pytest
from cli_program import ROOT, SMALL

DATA = ROOT / "tests" / "data"
MEMORY = DATA / "A.leak.bad.pt.trace.json.gz"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def draw(kscope, tmp_path):
    """Draws, and gives the pictures by name, what was said, and the document."""

    def run(*paths, said=""):
        done = kscope("report", "--json", "--svg", tmp_path / "p", *paths)
        assert (done.returncode, done.stderr) == (0, said)
        pictures = {
            path.stem[2:]: ElementTree.parse(path).getroot() for path in tmp_path.glob("p-*.svg")
        }
        return pictures, json.loads(done.stdout)

    return run


def words(picture):
    return [element.text for element in picture.iter(SVG + "text")]


def bars(picture):
    """The bars of each row, as (left, width, title)."""
    rows = {}
    for rect in picture.iter(SVG + "rect"):
        title = rect.find(SVG + "title")
        if title is not None:
            bar = (float(rect.get("x")), float(rect.get("width")), title.text)
            rows.setdefault(rect.get("y"), []).append(bar)
    return list(rows.values())


def test_bars_are_as_long_as_what_they_stand_for(draw):
    pictures, document = draw(MEMORY)
    assert set(pictures) == {"steps", "idle", "memory"}
    steps = document["steps"]
    rows = bars(pictures["steps"])
    assert len(rows) == len(steps)
    most = max(step["dur_ns"] for step in steps)
    for row, step in zip(rows, steps, strict=True):
        parts = [ns for ns in step["breakdown_ns"].values() if ns > 0]
        assert len(row) == len(parts)
        for (_, width, _), ns in zip(row, parts, strict=True):
            assert width == pytest.approx(660 * ns / most, abs=0.01)
        for (left, width, _), (after, *_) in zip(row, row[1:], strict=False):
            assert left + width == pytest.approx(after, abs=0.02)
        assert f"step {step['number']}" in words(pictures["steps"])
    (device,) = document["devices"]
    (row,) = bars(pictures["idle"])
    assert sum(width for _, width, _ in row) == pytest.approx(660, abs=0.1)
    causes = {"busy": device["busy_ns"], **device["idle_by_cause_ns"]}
    causes["kernel gaps"] = causes.pop("kernel_to_kernel")
    causes["host code"] = causes.pop("host_code")
    widths = {title.rsplit(" ", 2)[0]: width for _, width, title in row}
    assert widths == {
        cause: pytest.approx(660 * ns / device["span_ns"], abs=0.01)
        for cause, ns in causes.items()
        if ns > 0
    }
    assert f"busy {100 * device['util']:.0f} %" in words(pictures["idle"])
    assert document["verdict"]["text"] in words(pictures["idle"])
    labels = {title.rsplit(" ", 2)[0] for row in rows for _, _, title in row}
    assert labels == {"kernels", "sets", "runtime calls", "CPU operators", "other"}


def test_memory_is_drawn_to_scale(draw, kscope):
    pictures, _ = draw(MEMORY)
    curves = [p.get("d") for p in pictures["memory"].iter(SVG + "path") if "H" in p.get("d")]
    assert len(curves) == 3  # axes, reserved, allocated
    for curve in curves[1:]:
        xs = [float(x) for x in re.findall(r"H([\d.]+)", curve)]
        ys = [float(y) for y in re.findall(r"V([\d.]+)", curve)]
        assert xs == sorted(xs) and 90 <= xs[0] and xs[-1] == 880
        assert all(110 <= y <= 330 for y in ys)
    sql = "SELECT MAX(allocated_bytes), MAX(reserved_bytes) FROM memory WHERE device = 0"
    allocated, reserved = map(
        int, kscope("query", "--csv", MEMORY, sql).stdout.split()[1].split(",")
    )
    tops = [min(float(y) for y in re.findall(r"[V ]([\d.]+)", curve)) for curve in curves[1:]]
    assert tops == pytest.approx([110, 330 - 220 * allocated / reserved], abs=0.06)
    marks = {text.text: float(text.get("y")) - 4 for text in pictures["memory"].iter(SVG + "text")}
    for text, size in {"0 B": 0, "512 MiB": 1 << 29, "1.00 GiB": 1 << 30}.items():
        assert marks[text] == pytest.approx(330 - 220 * size / reserved, abs=0.06)


def test_ranks_are_named(draw, tmp_path):
    for rank in (0, 1):
        shutil.copy(DATA / f"D.straggler.bad.rank{rank}.pt.trace.json.gz", tmp_path)
    said = (
        "kscope: Cannot draw memory: the trace holds no events of an allocator "
        "(profile_memory=True records them)\n"
    )
    pictures, _ = draw(*sorted(tmp_path.glob("D.*")), said=said)
    assert set(pictures) == {"steps", "idle"}
    assert {"rank 0, GPU 0", "rank 1, GPU 1"} <= set(words(pictures["idle"]))


def test_nothing_to_draw_is_an_error(kscope, tmp_path):
    (tmp_path / "t.json").write_text('{"traceEvents": []}')
    run = kscope("report", "--quiet", "--svg", "p", "t.json", cwd=tmp_path)
    assert run.returncode == 3 and run.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_pictures_of_many_steps_say_how_many_more(kscope, tmp_path):
    step = SMALL["traceEvents"][0]
    events = [{**step, "name": f"ProfilerStep#{i}", "ts": 200 * i} for i in range(60)]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    run = kscope("report", "--quiet", "--svg", "p", "t.json", cwd=tmp_path)
    assert run.returncode == 0
    assert "and 20 more steps" in (tmp_path / "p-steps.svg").read_text()


def test_folder_that_is_not_there(kscope, tmp_path):
    run = kscope("report", "--svg", tmp_path / "no" / "p", MEMORY)
    assert run.returncode != 0 and "no/p-steps.svg" in run.stderr
    assert "No such file or directory" in run.stderr
