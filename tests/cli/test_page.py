"""Goal: the page of a report holds what the report says and nothing that a browser could take for
anything else, in bounded size. Method: pages of real and hostile traces are taken apart; their
blocks must hold what JSON document and SQL say."""

import gzip
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from cli_program import PROGRAM, ROOT, SMALL, environment

sys.path.insert(0, str(ROOT / "tests" / "support"))
import page_blocks  # noqa: E402
from left_out import why_no_page  # noqa: E402

DATA = ROOT / "tests" / "data"
FRAMES = DATA / "A.host_sync.bad.pt.trace.json.gz"
MEMORY = DATA / "A.leak.bad.pt.trace.json.gz"
MB = 1000 * 1000


@pytest.fixture(autouse=True)
def has_page(kscope, tmp_path):
    """A build without Node has no page, and says so; with Node it has one."""
    (tmp_path / "probe.json").write_text(json.dumps(SMALL))
    run = kscope("report", "--html", "probe.html", "probe.json", cwd=tmp_path)
    if run.returncode != 0 and "built without" in run.stderr:
        assert "Node.js" in run.stderr
        why = why_no_page(PROGRAM)
        assert why, "this build has no page, and should have one: configure anew"
        pytest.skip(why)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.fixture
def page(kscope, tmp_path):
    """Writes the page of traces, looks at what holds for all of them, and gives its parts."""

    def write(*words, **options):
        out = tmp_path / "page.html"
        run = kscope("report", "--html", out, *words, **options)
        assert (run.returncode, run.stderr) == (0, "")
        written = page_blocks.Page(out)
        assert set(written.blocks) == {"report", "timeline", "flame", "memory"}
        page_blocks.check_timeline(written.blocks["timeline"])
        page_blocks.check_flame(written.blocks["flame"])
        page_blocks.check_memory(written.blocks["memory"])
        assert written.blocks["timeline"]["origin_ns"] == written.blocks["report"]["origin_ns"]
        return written

    return write


def text_of(kscope, *words):
    run = kscope(*words)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def numbers(kscope, sql, path):
    """The only row of a query."""
    rows = text_of(kscope, "query", "--csv", path, sql).split("\n")
    return [int(cell) for cell in rows[1].split(",")]


def trace(tmp_path, events, name="trace.json"):
    path = tmp_path / name
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def span(name, ts, dur, tid=1, cat="cpu_op", **more):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, **more}


# ---------------------------------------------------------------- what it says


@pytest.mark.parametrize("path", [FRAMES, MEMORY], ids=["frames", "memory"])
def test_report_is_that_of_json(kscope, page, path):
    said = json.loads(text_of(kscope, "report", "--json", "--limit", 1000, path))
    assert page(path).blocks["report"] == said


def test_limits_and_choices_are_those_of_the_report(kscope, page):
    words = ["--step", "3..3", FRAMES]
    written = page(*words)
    assert written.blocks["report"] == json.loads(
        text_of(kscope, "report", "--json", "--limit", 1000, *words)
    )
    (steps,) = [t for t in written.blocks["timeline"]["tracks"] if t["kind"] == "steps"]
    assert steps["events"] == 1


def test_all_spans_are_on_the_timeline(kscope, page):
    written = page(FRAMES)
    tracks = written.blocks["timeline"]["tracks"]
    sql = "SELECT (SELECT COUNT(*) FROM slice), (SELECT COUNT(*) FROM gpu)"
    host, gpu = numbers(kscope, sql, FRAMES)
    events = {kind: sum(t["events"] for t in tracks if t["kind"] in kinds) for kind, kinds in {
        "host": ("thread", "async"), "gpu": ("stream", "annotations", "waits"),
        "steps": ("steps",)}.items()}  # fmt: skip
    assert events == {"host": host, "gpu": gpu, "steps": len(written.blocks["report"]["steps"])}
    exact = sum(len(level["ts"]) for track in tracks for level in track["levels"][1:])
    assert exact == sum(events.values())  # the trace is small
    assert [(track["kind"], track["name"], track["process"]) for track in tracks] == [
        ("steps", "steps", ""),
        ("thread", "thread 423 (python3)", "process 423: python3"),  # runs the steps
        ("thread", "thread 448 (python3)", "process 423: python3"),
        ("thread", "thread PyTorch Profiler", "process Spans"),
        ("stream", "GPU 0, stream 7", ""),
        ("annotations", "GPU 0, stream 7, annotations", ""),
    ]


def test_step_that_was_asked_for_is_all_there_is(page):
    tracks = page("--step", "3..3", FRAMES).blocks["timeline"]["tracks"]
    ((start, end, *_),) = page_blocks.rows(
        next(t["levels"][0] for t in tracks if t["kind"] == "steps")
    )
    for track in tracks:
        for at, *_ in page_blocks.rows(track["levels"][0]) if track["kind"] == "thread" else ():
            assert start <= at < end
    assert sum(track["events"] for track in tracks) > 1000


def test_arrows_lead_from_launches_to_work(page):
    timeline = page(FRAMES).blocks["timeline"]
    starts = {
        track["id"]: {start for start, *_ in page_blocks.rows(track["levels"][1])}
        for track in timeline["tracks"]
        if len(track["levels"]) > 1
    }
    flows = timeline["flows"]
    assert len(flows["to_ns"]) > 1000
    for side in ("from", "to"):
        for track, ns in zip(flows[f"{side}_track"], flows[f"{side}_ns"], strict=True):
            assert ns in starts[track]
    assert all(a <= b for a, b in zip(flows["from_ns"], flows["to_ns"], strict=True))


def test_flame_graph_has_the_time_of_folded_stacks(kscope, page):
    kinds = {kind["name"]: kind for kind in page(FRAMES).blocks["flame"]["kinds"]}
    assert set(kinds) == {"operators", "device", "python"}
    for name, words in {"operators": [], "device": ["--weight", "device"]}.items():
        lines = text_of(kscope, "export", "--to", "folded", *words, FRAMES).splitlines()
        folded = sum(int(line.rpartition(" ")[2]) for line in lines)
        nodes = kinds[name]["nodes"]
        assert sum(nodes["self"]) == folded
        root = sum(t for t, p in zip(nodes["total"], nodes["parent"], strict=True) if p < 0)
        assert root == folded
        names = [kinds[name]["strings"][place] for place in nodes["name"]]
        small = [t for t, n in zip(nodes["total"], names, strict=True) if n[:7] != "other ("]
        assert min(small) >= folded // 2000


def test_flame_graph_by_hand(page, tmp_path):
    events = [span("a", 0, 100), span("b", 10, 20), span("b", 40, 20), span("c", 70, 5),
              span("a", 200, 100), span("d", 210, 50),
              span("e", 270, 0.05), span("f", 280, 0.03)]  # fmt: skip
    (kind,) = page(trace(tmp_path, events)).blocks["flame"]["kinds"]
    columns = (kind["nodes"][key] for key in ("name", "parent", "self", "total", "calls"))
    nodes = [(kind["strings"][name], *rest) for name, *rest in zip(*columns, strict=True)]
    assert nodes == [
        ("a", -1, 104_920, 200_000, 2),
        ("d", 0, 50_000, 50_000, 1),
        ("b", 0, 40_000, 40_000, 2),
        ("c", 0, 5_000, 5_000, 1),
        ("other (2 frames)", 0, 80, 80, 2),
    ]


def test_memory_reaches_the_peak_of_the_events(kscope, page):
    (device,) = [d for d in page(MEMORY).blocks["memory"]["devices"] if d["device"] == "GPU 0"]
    sql = (
        "SELECT MAX(allocated_bytes), MIN(allocated_bytes), MAX(reserved_bytes) FROM memory "
        "WHERE device = 0"
    )
    high, low, reserved = numbers(kscope, sql, MEMORY)
    assert max(device["allocated_max"]) == high
    assert min(device["allocated_min"]) == low
    assert max(device["reserved"]) == reserved


def test_both_ranks_have_their_tracks(page, tmp_path):
    for rank in (0, 1):
        shutil.copy(DATA / f"D.straggler.bad.rank{rank}.pt.trace.json.gz", tmp_path)
    tracks = page(*sorted(tmp_path.glob("D.*"))).blocks["timeline"]["tracks"]
    for kind in ("steps", "thread", "stream"):
        assert {track["rank"] for track in tracks if track["kind"] == kind} == {0, 1}


def stretches(count):
    """The samples of a curve, one each us, that share a point."""
    parts = {}
    for i in range(count):
        parts.setdefault(1000 * i // (1000 * (count - 1) // 1500 + 1), []).append(i)
    return list(parts.values())


def test_curves_alone_have_a_time_of_their_own(kscope, page, tmp_path):
    events = [{"ph": "C", "name": "queue", "pid": 1, "ts": 1000 + i, "args": {"length": i % 7}}
              for i in range(5000)]  # fmt: skip
    path = trace(tmp_path, events)
    timeline = page(path).blocks["timeline"]
    (counter,) = timeline["counters"]
    assert counter["name"] == "queue: length"
    assert timeline["end_ns"] - timeline["start_ns"] == 4999 * 1000
    parts = stretches(5000)
    starts = [at - timeline["start_ns"] for at in page_blocks.undelta(counter["ts"])]
    assert starts == [1000 * part[0] for part in parts]
    for key, of in (("min", min), ("max", max)):
        assert counter[key] == [of(i % 7 for i in part) for part in parts]


def test_memory_keeps_the_extremes_of_each_stretch(page, tmp_path):
    events = [{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1,
               "ts": i, "args": {"Device Type": 1, "Device Id": 0, "Addr": 1, "Bytes": 1,
                                 "Total Allocated": i % 7, "Total Reserved": i % 5}}
              for i in range(5000)]  # fmt: skip
    (device,) = page(trace(tmp_path, events)).blocks["memory"]["devices"]
    parts = stretches(5000)
    assert device["allocated_min"] == [min(i % 7 for i in part) for part in parts]
    assert device["allocated_max"] == [max(i % 7 for i in part) for part in parts]
    assert device["reserved"] == [max(i % 5 for i in part) for part in parts]


def test_more_curves_than_there_is_room_for_are_counted(page, tmp_path):
    events = [{"ph": "C", "name": f"c{i % 70}", "pid": 1, "ts": i, "args": {"": i}}
              for i in range(210)]  # fmt: skip
    timeline = page(trace(tmp_path, events)).blocks["timeline"]
    assert [counter["name"] for counter in timeline["counters"]] == [f"c{i}" for i in range(64)]
    assert timeline["samples_left_out"] == 3 * 6


def recording(tmp_path, name):
    source = ROOT / "tests" / "golden" / "capture" / name / "input.ksrec.gz"
    path = tmp_path / "r.ksrec"
    path.write_bytes(gzip.decompress(source.read_bytes()))
    return path


def test_curves_of_a_recording_have_names_and_units(page, tmp_path):
    counters = page(recording(tmp_path, "recording")).blocks["timeline"]["counters"]
    assert [(counter["name"], counter["unit"]) for counter in counters] == [
        ("cpu.process", "percent"),
        ("cpu.core: percent 0", "percent"),
        ("lr", ""),
        ("tokens: input", "token"),
    ]


def test_functions_of_a_recording_are_a_flame_graph(kscope, page, tmp_path):
    path = recording(tmp_path, "recording_functions")
    kinds = {kind["name"]: kind for kind in page(path).blocks["flame"]["kinds"]}
    lines = text_of(kscope, "export", "--to", "folded", "--weight", "functions", path).splitlines()
    folded = sum(int(line.rpartition(" ")[2]) for line in lines)
    assert folded > 0
    assert sum(kinds["python"]["nodes"]["self"]) == folded
    functions = json.loads(text_of(kscope, "report", "--json", path))["functions"]
    assert sum(kinds["python"]["nodes"]["calls"]) == sum(f["calls"] for f in functions)


# ---------------------------------------------------------------- how it is made


def test_bytes_are_the_same_for_any_number_of_threads(kscope, tmp_path):
    plain = tmp_path / "trace.json"
    plain.write_bytes(gzip.decompress((DATA / "A.dataloader.good.pt.trace.json.gz").read_bytes()))
    pages = set()
    for threads in (1, 2, 4):
        out = tmp_path / f"{threads}.html"
        text_of(kscope, "report", "--threads", threads, "--html", out, plain)
        pages.add(out.read_bytes())
    assert len(pages) == 1


def test_nothing_but_the_script_and_the_style_may_run(page):
    written = page(MEMORY)
    policy = written.policy()
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == [written.hash_of("script")]
    assert policy["style-src"] == [written.hash_of("style")]
    assert policy["img-src"] == ["data:"]
    assert policy["base-uri"] == policy["form-action"] == ["'none'"]
    assert len(policy) == 6
    assert {"src", "href", "onload", "onerror", "style"}.isdisjoint(
        key for _, attrs, _ in written.elements for key in attrs
    )
    assert written.text.count("http://") + written.text.count("https://") == sum(
        text.count("http://") + text.count("https://") for _, _, text in written.elements
    )


HOSTILE = [
    "</script><script>alert(1)</script>", "<!--", "-->", "<!--<script>", "]]>", "</SCRIPT ",
    "\u2028\u2029\ufeff", "\ud800 alone", "a\udfff", "\0\x01\x1f\x7f", "&lt;&#60;", "'\"`\\",
    "<img src=x onerror=alert(1)>", "</style></noscript>", "", " ",
]  # fmt: skip


def test_names_are_no_markup(page, tmp_path):
    events = [span("ProfilerStep#1", 0, 1000, cat="user_annotation")]
    for i, name in enumerate(HOSTILE):
        events.append(span(name, 10 + 10 * i, 5))
        events.append(
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": i, "args": {"name": name}}
        )
        events.append(span("x", 10, 5, tid=name))
        events.append({"ph": "C", "name": name, "pid": 1, "ts": 10 * i, "args": {name: 1}})
    plain = page(trace(tmp_path, [span("a", 0, 1)], "script.json"))
    written = page(trace(tmp_path, events, "<b>&.json"))
    tags = [tag for tag in written.tags() if tag != "li"]
    assert tags == [tag for tag in plain.tags() if tag != "li"]
    strings = written.blocks["timeline"]["strings"]
    for name in HOSTILE:
        whole = name.replace("\ud800", "\ufffd").replace("\udfff", "\ufffd") or "(no name)"
        assert whole in strings


def test_bytes_that_are_no_text_are_replaced(page, tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(json.dumps({"traceEvents": [span("NAME", 0, 5)]}).encode()
                     .replace(b"NAME", b"a\xff</script>\xe2\x80\xa8"))  # fmt: skip
    assert "a\ufffd</script>\u2028" in page(path).blocks["timeline"]["strings"]


# ---------------------------------------------------------------- sizes


def test_more_names_than_there_is_room_for_fit(page, tmp_path):
    path = tmp_path / "trace.json"
    with path.open("w") as file:
        file.write('{"traceEvents": [\n')
        for i in range(100_000):
            name = f"operator number {i} " + "\\u0001<>" * 40
            file.write(f'{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,'
                       f'"ts":{i},"dur":0.5}},\n')  # fmt: skip
        file.write("{}]}")
    written = page(path)
    assert written.size < 20 * MB
    assert written.blocks["timeline"]["names_left_out"] > 0
    assert written.blocks["report"]["truncated"]["operators"] == 100_000


def test_long_names_halve_the_lists_of_the_report(page, tmp_path):
    names = [f"{i:03}" + "<" * 5000 for i in range(300)]
    written = page(trace(tmp_path, [span(n, 10 * i, 5) for i, n in enumerate(names)]))
    operators = written.blocks["report"]["operators"]
    (text,) = [text for _, attrs, text in written.elements if attrs.get("id") == "report"]
    assert 0 < len(operators) < 300 and 2.4 * MB < len(text) < 5.3 * MB
    assert {operator["name"] for operator in operators} <= {n[:4096] + "\u2026" for n in names}


def test_many_tracks_fit(page, tmp_path):
    path = tmp_path / "trace.json"
    with path.open("w") as file:
        file.write('{"traceEvents": [\n')
        for i in range(200_000):
            file.write(f'{{"ph":"X","cat":"cpu_op","name":"a","pid":{i % 7},"tid":{i},'
                       f'"ts":{i * 37 % 1000003},"dur":{i % 11}}},\n')  # fmt: skip
        file.write("{}]}")
    written = page(path)
    assert written.size < 5 * MB
    tracks = written.blocks["timeline"]["tracks"]
    assert len(tracks) <= 256
    assert sum(track["events"] for track in tracks if track["kind"] != "steps") == 200_000
    (rest,) = [track for track in tracks if track["kind"] == "other"]
    assert rest["name"] == f"{200_000 - len(tracks) + 2} more threads"  # not it, and not the steps
    assert {written.blocks["timeline"]["strings"][n] for n in rest["levels"][0]["name"]} == {"a"}


def test_stacks_whose_times_have_no_sum_fit(page, tmp_path):
    """Frames enough to be folded, all of them as long as a number can say."""
    age = 1 << 52  # us, 143 years: of three threads the sum is more than 64 bits hold
    path = tmp_path / "trace.json"
    events = (
        f'{{"ph":"X","cat":"cpu_op","name":"{top} {depth}","pid":1,"tid":"{top} {thread}",'
        f'"ts":0,"dur":{age}}}'
        for top in "abc"
        for thread in range(3)
        for depth in range(3500)
    )
    path.write_text('{"traceEvents": [\n' + ",\n".join(events) + "]}")
    (operators,) = page(path).blocks["flame"]["kinds"]
    assert operators["strings"] == ["other (10500 frames)"]


def ranges(timeline, origin_ns=10**9):
    return [
        (part["why"], part["start_ns"] - origin_ns, part["end_ns"] - origin_ns)
        for part in timeline["ranges"]
    ]


def test_stretches_are_what_findings_name_and_steps_as_far_as_they_fit(page, tmp_path):
    """A finding names all of nine steps, of which the fifth, slowest one has 160,000 operators."""
    starts = [0, 2000, 4000, 6000, 8000, 200_000, 202_000, 204_000, 206_000]
    ends = [at + 1000 + 10 * i for i, at in enumerate(starts)]
    ends[4] = 188_000
    events = [span(f"ProfilerStep#{i}", at, end - at, cat="user_annotation")
              for i, (at, end) in enumerate(zip(starts, ends, strict=True))]  # fmt: skip
    events += [span("a", 8000 + i, 0.5) for i in range(160_000)]
    whys = {4: "slowest step", 5: "median step"}
    expected = [
        (whys.get(i, "host.python_gap"), 1000 * at, 1000 * end)
        for i, (at, end) in enumerate(zip(starts, ends, strict=True))
    ]
    # Of the slowest one first half of its time, and then, as the finding names it, of the rest.
    expected[4:5] = [
        ("slowest step", 8_000_000, 98_000_000),
        ("host.python_gap", 98_000_000, 143_000_000),
    ]
    assert ranges(page(trace(tmp_path, events)).blocks["timeline"], 0) == expected


def test_spans_that_hold_all_the_rest_fit(page, tmp_path):
    """More than fit begin early and end late, beside steps that are held span by span."""
    events = [span(f"ProfilerStep#{i}", 10**6 + 100 * i, 90 + i, cat="user_annotation")
              for i in range(2)]  # fmt: skip
    events += [span("wide", i, 2 * (10**6 - i), tid=2 + i % 3) for i in range(160_000)]
    timeline = page(trace(tmp_path, events)).blocks["timeline"]
    assert ranges(timeline) == [("first step", 0, 90_000), ("slowest step", 100_000, 191_000)]
    exact = [len(level["ts"]) for track in timeline["tracks"] for level in track["levels"][1:]]
    assert sum(exact) < 2000


def test_a_name_of_16_mib_is_cut(page, tmp_path):
    name = "<" * (16 * 1024 * 1024 - 1)
    written = page(trace(tmp_path, [span(name, 0, 10), span("b", 20, 10)]))
    assert written.size < MB
    assert any(n.startswith("<<<") and n.endswith("\u2026")
               for n in written.blocks["timeline"]["strings"])  # fmt: skip


def test_spans_that_do_not_nest_keep_apart(page, tmp_path):
    events = [span(f"s{i}", 3 * i, 10) for i in range(400)]
    (track,) = [
        t
        for t in page(trace(tmp_path, events)).blocks["timeline"]["tracks"]
        if t["kind"] != "steps"
    ]
    assert track["depth_max"] == 4
    ends = {}
    for start, end, depth, *_ in page_blocks.rows(track["levels"][1]):
        assert ends.get(depth, 0) <= start
        ends[depth] = end


# ---------------------------------------------------------------- what can go wrong


def test_page_and_report_go_where_they_are_sent(kscope, tmp_path):
    (tmp_path / "t.json").write_text(json.dumps(SMALL))
    run = kscope("report", "--json", "--html", "p.html", "t.json", cwd=tmp_path)
    assert json.loads(run.stdout)["schema"] == "kinetoscope.report/1"
    run = kscope("report", "--html", "-", "-o", "screen.txt", "t.json", cwd=tmp_path)
    assert run.returncode == 0
    assert run.stdout == (tmp_path / "p.html").read_text()
    assert (tmp_path / "screen.txt").read_text().startswith("The step takes")
    for words in (["--html", "-"], ["--html", "x", "-o", "x"]):
        run = kscope("report", *words, "t.json", cwd=tmp_path)
        assert run.returncode == 2
        assert "Cannot write page and report to" in run.stderr


def test_an_input_is_not_overwritten(kscope, tmp_path):
    trace_text = json.dumps(SMALL)
    (tmp_path / "t.json").write_text(trace_text)
    os.link(tmp_path / "t.json", tmp_path / "same.json")
    for target in ("t.json", "./t.json", "same.json"):
        run = kscope("report", "--html", target, "t.json", cwd=tmp_path)
        assert run.returncode == 2
        assert f"Cannot write to {target}: it is an input" in run.stderr
        assert (tmp_path / target).read_text() == trace_text


def test_folder_without_rights(kscope, tmp_path):
    """Nobody makes files in /sys, while root writes into folders of any mode."""
    (tmp_path / "t.json").write_text(json.dumps(SMALL))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    closed = pathlib.Path("/sys") if os.geteuid() == 0 else closed
    run = kscope("report", "--html", closed / "p.html", "t.json", cwd=tmp_path)
    assert run.returncode != 0
    assert "Cannot create output: Permission denied" in run.stderr


def test_a_page_is_there_whole_or_not_at_all(kscope, tmp_path):
    (tmp_path / "t.json").write_text(json.dumps(SMALL))
    (tmp_path / "p.html").write_text("what was there")
    before = sorted(path.name for path in tmp_path.iterdir())
    run = kscope("report", "--html", "missing/p.html", "t.json", cwd=tmp_path)
    assert run.returncode != 0 and run.stdout == ""
    assert "missing/p.html" in run.stderr and "No such file or directory" in run.stderr
    run = kscope("report", "--html", "/dev/full", "t.json", cwd=tmp_path)
    assert run.returncode != 0 and "No space left on device" in run.stderr
    # No room: a limit on the size of files stands for a full disk.
    limited = subprocess.run(
        ["sh", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$0" report --html p.html t.json', PROGRAM],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert limited.returncode != 0
    assert "p.html" in limited.stderr and "File too large" in limited.stderr
    assert (tmp_path / "p.html").read_text() == "what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_nothing_and_half_a_trace(page, tmp_path):
    assert page(trace(tmp_path, [])).blocks["timeline"]["tracks"] == []
    whole = lzma.decompress((DATA / "A.channels_last.bad.pt.trace.json.xz").read_bytes())
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole[: len(whole) // 3])
    written = page(cut)
    assert written.blocks["report"]["inputs"][0]["status"] == "truncated"
    assert sum(track["events"] for track in written.blocks["timeline"]["tracks"]) > 1000
