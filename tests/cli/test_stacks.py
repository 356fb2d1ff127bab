"""A recording with stacks beside a clean one gives places, and nothing else of it is counted."""

import gzip
import json
import pathlib
import subprocess

from cli_program import PROGRAM, environment

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"


def split(folder):
    """The recording without its Python frames, and whole as the sibling with stacks."""
    raw = gzip.decompress((DATA / "A.host_sync.bad.pt.trace.json.gz").read_bytes())
    (folder / "r0.window1.stacks.pt.trace.json").write_bytes(raw)
    document = json.loads(raw)
    document["traceEvents"] = [
        e for e in document["traceEvents"] if e.get("cat") != "python_function"
    ]
    clean = folder / "r0.window1.pt.trace.json"
    clean.write_text(json.dumps(document))
    return clean


def report(path, *words):
    command = [PROGRAM, "report", "--json", *words, str(path)]
    out = subprocess.run(command, check=True, timeout=60, capture_output=True, env=environment())
    return json.loads(out.stdout)


def test_places_come_from_the_sibling(tmp_path):
    alone = report(split(tmp_path))
    both = report(tmp_path)
    assert len(both["inputs"]) == 1
    assert both["steps"] == alone["steps"]
    assert both["operators"] == alone["operators"]
    item = both["syncs"][0]
    assert item["count_per_step"] == 74
    where = item["where"]
    assert (where["operator"], where["file"], where["line"]) == ("aten::item", "gen_corpus.py", 109)
    assert alone["syncs"][0]["where"]["file"] is None


def test_damaged_sibling_is_left_out(tmp_path):
    split(tmp_path)
    (tmp_path / "r0.window1.stacks.pt.trace.json").write_text("no trace")
    assert report(tmp_path)["syncs"][0]["where"]["file"] is None


def test_recording_with_stacks_alone_is_a_trace(tmp_path):
    clean = split(tmp_path)
    clean.unlink()
    assert report(tmp_path)["syncs"][0]["where"]["line"] == 109


def test_each_window_has_places_of_its_own(tmp_path):
    """In the first window of a run the call came from another line."""
    clean = split(tmp_path).read_bytes()
    stacks = (tmp_path / "r0.window1.stacks.pt.trace.json").read_bytes()
    out = tmp_path / "out"
    out.mkdir()
    for window, place in ((1, b"gen_corpus.py(7)"), (2, b"gen_corpus.py(109)")):
        moved = stacks.replace(b"gen_corpus.py(109)", place)
        stem = out / f"rank0.pid1.window{window}"
        pathlib.Path(f"{stem}.pt.trace.json.gz").write_bytes(gzip.compress(clean))
        pathlib.Path(f"{stem}.stacks.pt.trace.json.gz").write_bytes(gzip.compress(moved))
    lines = [
        report(out, *words)["syncs"][0]["where"]["line"]
        for words in ((), ("--window", "2"), ("--window", "1"))
    ]
    assert lines == [109, 109, 7]
