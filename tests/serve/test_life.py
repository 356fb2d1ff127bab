"""Goal: the server listens where it says, ends when it should, leaves nothing, follows its input,
but not where a link leads. Method: the program, its sockets, and files that change."""

import base64
import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest
from served_program import PROGRAM, ROOT, Served, take_answer, wait_for, write_trace

REAL = ROOT / "tests" / "data" / "A.host_sync.bad.pt.trace.json.gz"

RECORDING = ROOT / "tests" / "golden" / "capture" / "recording" / "input.ksrec.gz"


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "small.pt.trace.json"
    write_trace(path)
    return path


def listening(pid):
    """(address, port) of each socket that the process listens on."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    found = set()
    for name in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{name}", encoding="ascii") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                    address, port = words[1].split(":")
                    found.add((address, int(port, 16)))
    return found


def run_view(*words, **more):
    return subprocess.run(
        [PROGRAM, "view", *map(str, words)], capture_output=True, text=True, timeout=30, **more
    )


# ---------------------------------------------------------------- where


def test_it_listens_on_loopback_alone(trace):
    with Served("--no-cache", trace) as server:
        found = listening(server.process.pid)
        assert ("0100007F", server.port) in found
        assert found <= {
            ("0100007F", server.port),
            ("00000000000000000000000001000000", server.port),
        }
        assert "warning" not in server_errors(server)


def server_errors(server):
    server.end()
    return server.errors


def test_the_address_of_ipv6_is_served(trace):
    with Served("--no-cache", trace) as server:
        if len(listening(server.process.pid)) < 2:
            pytest.skip("this machine has no ::1")
        server.log_in()
        answer = server.ask("/api/version", host=f"[::1]:{server.port}", address="::1")
        assert answer.status == 200
        for host in (f"::1:{server.port}", f"[::2]:{server.port}", f"[::1]{server.port}"):
            assert server.ask("/api/version", host=host, address="::1").status == 403


def test_a_port_that_is_asked_for_is_taken_or_refused(trace):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        sock.listen()
        run = run_view("--no-cache", "--port", port, trace)
        assert run.returncode == 3
        assert f"port={port}" in run.stderr
    with Served("--no-cache", "--port", port, trace) as server:
        assert server.port == port


def test_another_address_is_warned_of(trace):
    with Served("--no-cache", "--host", "127.0.0.2", trace) as server:
        assert server.name == "127.0.0.2"
        answer = server.ask("/", host=f"127.0.0.2:{server.port}", address="127.0.0.2")
        assert answer.status == 200
        other = server.ask("/", host=f"127.0.0.3:{server.port}", address="127.0.0.2")
        assert other.status == 403
        assert "warning: 127.0.0.2 can be reached from other machines" in server_errors(server)
    with Served("--no-cache", "--host", "0.0.0.0", trace) as server:
        assert server.ask("/", host=f"192.0.2.7:{server.port}").status == 200
        assert server.ask("/", host=f"evil.example:{server.port}").status == 403
        assert "warning" in server_errors(server)
    assert run_view("--host", "example.org", trace).returncode == 2


def test_a_socket_that_only_its_owner_can_open(trace, tmp_path):
    path = tmp_path / "page.sock"
    with Served("--no-cache", "--unix", path, trace) as server:
        server.path = path
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert listening(server.process.pid) == set()
        server.log_in()
        for host in ("localhost", "localhost:8000", "127.0.0.1:9"):
            assert server.ask("/api/version", host=host).status == 200
        assert server.ask("/api/version", host="evil.example").status == 403
        assert server.end() == -signal.SIGTERM
    assert not path.exists()


def test_a_socket_that_is_left_over_is_replaced_and_a_file_is_not(trace, tmp_path):
    path = tmp_path / "page.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    with Served("--no-cache", "--unix", path, trace) as server:
        assert server.process.poll() is None
    path.write_text("precious")
    assert run_view("--no-cache", "--unix", path, trace).returncode == 3
    assert path.read_text() == "precious"


def test_options_that_do_not_fit_together(trace, tmp_path):
    for words in (
        ["--unix", "s", "--port", "1"],
        ["--unix", "s", "--host", "::1"],
        ["--open", "--no-open"],
        ["--port", "65536"],
        ["--idle-timeout", "0"],
        ["--unix", "x" * 200],
    ):
        run = run_view(*words, trace, cwd=tmp_path)
        assert (run.returncode, run.stdout) == (2, "")
    assert run_view("--no-cache", tmp_path / "none").returncode == 3


def test_open_starts_the_browser_without_a_shell(trace, tmp_path):
    seen = tmp_path / "seen"
    browser = tmp_path / "xdg-open"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}\n')
    browser.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with Served("--no-cache", "--open", trace, env=env) as server:
        assert wait_for(lambda: seen.exists() and seen.read_text() == server.url + "\n")


# ---------------------------------------------------------------- how long


def test_it_ends_when_nobody_asks(trace):
    with Served("--no-cache", "--idle-timeout", 2, trace) as server:
        begin = time.monotonic()
        while time.monotonic() < begin + 3:
            assert server.ask("/").status == 200
            time.sleep(0.5)
        assert server.process.wait(timeout=5) == 0


def test_it_ends_with_its_starter(trace):
    script = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, start_new_session=True)\n"
        "print(p.pid, p.stdout.readline().decode().strip(), flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [PROGRAM, "view", "--no-cache", str(trace)]
    with subprocess.Popen(
        ["python3", "-c", script, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as starter:
        pid = int(starter.stdout.readline().split()[0])
        starter.kill()
    assert wait_for(lambda: not is_running(pid), 5)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().split(")")[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_signals_end_it(trace):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        server = Served("--no-cache", trace)
        server.process.send_signal(number)
        assert server.process.wait(timeout=5) == -number
        server.end()


# ---------------------------------------------------------------- what it shows


def test_it_writes_nothing(trace, tmp_path):
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with Served("--no-cache", trace) as server:
        server.log_in()
        for target in ("report", "timeline", "flame", "memory"):
            assert server.ask(f"/api/{target}?v=1").status == 200
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def names(server):
    version = server.version()
    return server.ask(f"/api/timeline?v={version}").json()["strings"]


def test_a_trace_that_is_written_anew_is_shown(trace):
    with Served("--no-cache", trace) as server:
        server.log_in()
        assert "aten::linear" in names(server)
        write_trace(trace, name="aten::newer", steps=4)
        assert wait_for(lambda: server.version() == 2)
        assert "aten::newer" in names(server)
        assert len(server.ask("/api/report?v=2").json()["steps"]) == 4
        assert len(server.ask("/api/report?v=1").json()["steps"]) == 3  # for pages that lag
        write_trace(trace, name="aten::newest", steps=5)
        assert wait_for(lambda: server.version() == 3)
        assert server.ask("/api/report?v=1").status == 409


def test_damage_on_the_way_keeps_the_report_that_is_there(trace):
    with Served("--no-cache", "--strict", trace) as server:
        server.log_in()
        trace.write_text(json.dumps({"traceEvents": []})[:-3])
        time.sleep(2.5)
        assert server.version() == 1
        assert "aten::linear" in names(server)
        write_trace(trace, name="aten::whole")
        assert wait_for(lambda: server.version() == 2)
        assert "aten::whole" in names(server)


def test_a_trace_that_is_added_to_a_folder_is_shown(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    write_trace(folder / "rank0.pid10.window1.pt.trace.json.gz", name="aten::first")
    with Served("--no-cache", folder) as server:
        server.log_in()
        assert "aten::first" in names(server)
        write_trace(folder / "rank0.pid10.window2.pt.trace.json.gz", name="aten::second")
        assert wait_for(lambda: server.version() == 2)
        assert "aten::second" in names(server)


def test_a_recording_that_grows_is_shown(tmp_path):
    """The first half of what was recorded, then all of it."""
    whole = gzip.decompress(RECORDING.read_bytes())
    path = tmp_path / "a.ksrec"
    path.write_bytes(whole[: len(whole) // 2])
    with Served("--no-cache", path) as server:
        server.log_in()
        first = server.ask("/api/report?v=1").json()["inputs"][0]
        path.write_bytes(whole)
        assert wait_for(lambda: server.version() == 2)
        second = server.ask("/api/report?v=2").json()["inputs"][0]
        assert second["events"] > first["events"]


def test_a_path_that_becomes_a_link_is_not_followed(trace, tmp_path):
    secret = tmp_path / "elsewhere" / "secret.pt.trace.json"
    secret.parent.mkdir()
    write_trace(secret, name="aten::secret")
    with Served("--no-cache", "--verbose", trace) as server:
        server.log_in()
        link = tmp_path / "link"
        link.symlink_to(secret)
        link.rename(trace)
        time.sleep(2.5)
        assert server.version() == 1
        assert "aten::secret" not in names(server)
        assert "leads somewhere else" in server_errors(server)


def test_standard_input_is_shown_once(trace):
    with open(trace, "rb") as file:
        process = subprocess.Popen(
            [PROGRAM, "view", "--no-cache", "-"],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    assert process.stdout.readline().startswith(b"http://127.0.0.1:")
    process.terminate()
    process.wait(timeout=5)
    process.stdout.close()


# ---------------------------------------------------------------- tiles


def spans_of_file(path):
    """(start, duration, name) of each host span of a trace, in ns from its first one."""
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    rows = [
        (round(e["ts"] * 1000), round(e["dur"] * 1000), e["name"])
        for e in events
        if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "python_function", "cuda_runtime")
    ]
    return sorted(rows)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    path = tmp_path_factory.mktemp("real") / REAL.name
    shutil.copy(REAL, path)
    with Served("--no-cache", path) as server:
        server.log_in()
        yield server


def rows_of(tile, track):
    """(start, duration, depth, name, count) of a track."""
    (level,) = next(each["levels"] for each in tile["tracks"] if each["id"] == track)
    start = 0
    rows = []
    columns = zip(
        level["ts"], level["dur"], level["depth"], level["name"], level["count"], strict=True
    )
    for delta, dur, depth, name, count in columns:
        start += delta
        rows.append((start, dur, depth, tile["strings"][name], count))
    return level, rows


def ask_tile(server, start, end, parts, tracks):
    names = ",".join(map(str, tracks))
    answer = server.ask(f"/api/tile?v=1&start={start}&end={end}&parts={parts}&tracks={names}")
    assert answer.status == 200
    return answer.json()


def test_exact_spans_are_the_rows_of_the_trace(real):
    timeline = real.ask("/api/timeline?v=1").json()
    origin = int(timeline["origin_ns"])
    threads = [track["id"] for track in timeline["tracks"] if track["kind"] == "thread"]
    end = timeline["end_ns"] + 1
    tile = ask_tile(real, timeline["start_ns"], end, 4096, threads)
    rows = []
    for track in threads:
        level, of_track = rows_of(tile, track)
        assert level["is_exact"]
        rows += of_track
    report = real.ask("/api/report?v=1").json()
    assert int(report["origin_ns"]) == origin
    found = sorted((start, dur, name) for start, dur, _, name, _ in rows)
    with gzip.open(REAL) as file:
        document = json.load(file)
    base = document.get("baseTimeNanoseconds", 0)
    wanted = [(base + start - origin, dur, name) for start, dur, name in spans_of_file(REAL)]
    counted = {}
    for row in found:
        counted[row] = counted.get(row, 0) + 1
    missing = [row for row in wanted if not take(counted, row)]
    assert len(wanted) > 10000
    assert missing == []


def take(counted, row):
    counted[row] = counted.get(row, 0) - 1
    return counted[row] >= 0


def test_tiles_of_parts_hold_what_the_whole_holds(real):
    timeline = real.ask("/api/timeline?v=1").json()
    start, end = timeline["start_ns"], timeline["end_ns"] + 1
    tracks = [track["id"] for track in timeline["tracks"]]
    whole = ask_tile(real, start, end, 4096, tracks)
    cuts = [start + (end - start) * i // 37 for i in range(38)]
    for track in tracks:
        _, expected = rows_of(whole, track)
        for low, high in zip(cuts[::6], cuts[1::6], strict=False):
            level, rows = rows_of(ask_tile(real, low, high, 16, [track]), track)
            assert level["is_exact"]
            assert rows == [
                row
                for row in expected
                if row[0] < high and (row[0] >= low or row[0] + row[1] > low)
            ]


def embedded_timeline(tmp_path):
    """The block `timeline` of the page as a file."""
    page = tmp_path / "page.html"
    command = [PROGRAM, "report", "--no-cache", "--html", page, "-o", os.devnull, REAL]
    subprocess.run(command, check=True, timeout=60)
    found = re.search(r'<script[^>]* id="timeline"([^>]*)>(.*?)</script>', page.read_text(), re.S)
    text = found[2]
    if "gzip" in found[1]:
        text = gzip.decompress(base64.b64decode(text))
    return json.loads(text)


def test_depths_are_those_of_the_page_as_a_file(real, tmp_path):
    timeline = embedded_timeline(tmp_path)
    served_timeline = real.ask("/api/timeline?v=1").json()
    compared = 0
    for track, served_track in zip(timeline["tracks"], served_timeline["tracks"], strict=True):
        assert served_track["levels"] == track["levels"][:1]  # the others are tiles here
        for level in [level for level in track["levels"] if level["is_exact"]]:
            tile = ask_tile(real, level["start_ns"], level["end_ns"], 16, [track["id"]])
            served_level, rows = rows_of(tile, track["id"])
            names = [timeline["strings"][name] for name in level["name"]]
            assert served_level["ts"] == level["ts"]
            assert served_level["depth"] == level["depth"]
            assert [row[3] for row in rows] == names
            compared += len(rows)
    assert compared > 10000


def find(server, text, version=1):
    return server.ask(f"/api/find?v={version}", method="POST", body=text)


def test_a_search_finds_each_span_that_has_the_name(real):
    found = find(real, b"ATEN::").json()
    timeline = real.ask("/api/timeline?v=1").json()
    tracks = [track["id"] for track in timeline["tracks"]]
    whole = ask_tile(real, timeline["start_ns"], timeline["end_ns"] + 1, 4096, tracks)
    wanted = sorted(
        (start, track, depth, dur, name)
        for track in tracks
        for start, dur, depth, name, _ in rows_of(whole, track)[1]
        if "aten::" in name.lower()
    )
    columns = [found[key] for key in ("start_ns", "track", "depth", "dur", "name")]
    rows = [
        (start, track, depth, dur, found["strings"][name])
        for start, track, depth, dur, name in zip(*columns, strict=True)
    ]
    assert found["is_cut"] == (len(wanted) > 5000)
    assert len(rows) > 1000
    assert rows == wanted[:5000]
    kernels = find(real, b"elementwise_kernel").json()
    kinds = {timeline["tracks"][track]["kind"] for track in kernels["track"]}
    assert "stream" in kinds
    assert find(real, b"no such name").json()["start_ns"] == []


def test_a_search_takes_a_short_text(real):
    assert find(real, b"").status == 400
    assert find(real, b"x" * 256).status == 200
    assert find(real, b"x" * 257).status == 400
    assert find(real, b"x" * 100000).status == 400
    assert find(real, b"\xff\0\xc0\xae").json()["start_ns"] == []
    assert find(real, b"aten", version=2).status == 409
    assert real.ask("/api/find?v=1", method="POST", body=b"aten", cookie=False).status == 401
    assert real.ask("/api/find?v=1").status == 404


def test_too_many_spans_become_blocks_that_lose_none(tmp_path):
    path = tmp_path / "dense.pt.trace.json"
    count = 60000
    spans = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": f"op{i % 7}",
            "pid": 1,
            "tid": 1,
            "ts": 100 + i * 2,
            "dur": 1,
            "args": {},
        }
        for i in range(count)
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": spans}))
    with Served("--no-cache", path) as server:
        server.log_in()
        timeline = server.ask("/api/timeline?v=1").json()
        (track,) = [each["id"] for each in timeline["tracks"] if each["kind"] == "thread"]
        end = timeline["end_ns"] + 1
        level, rows = rows_of(ask_tile(server, 0, end, 512, [track]), track)
        assert not level["is_exact"]
        assert sum(row[4] for row in rows) == count
        assert len(rows) <= 1025
        level, rows = rows_of(ask_tile(server, 0, end // 4, 512, [track]), track)
        assert level["is_exact"]
        assert len(rows) == count // 4


def test_answers_are_taken_apart_rightly():
    """The reader of these tests, on an answer without a body."""
    data = b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 9\r\n\r\nHTTP/1.1 "
    answer, left = take_answer(data)
    assert (answer.status, answer.headers["etag"], left) == (304, "x", b"HTTP/1.1 ")
