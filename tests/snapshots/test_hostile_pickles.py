"""Goal: nothing that a pickle holds is ever run, and what is no snapshot of plain data is refused
with its place, in bounded memory and time. Method: pickles made by hand, each with one thing that
is wrong; those that would run code leave a file when they do."""

import gzip
import json
import os
import pathlib
import pickle
import struct
import subprocess
import sys

import pytest
from snapshot_program import PROGRAM, ROOT, gen_snapshot, start

sys.path.insert(0, str(ROOT / "tests"))
import peak_memory

EXIT_INPUT = 3
NOT_DATA = {
    "GLOBAL": (b"\x80\x02cos\nsystem\nX\x07\x00\x00\x00touch x\x85R.", 2),
    "GLOBAL without protocol": (b"cos\nsystem\n(S'touch x'\ntR.", 0),
    "STACK_GLOBAL": (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R.", 14),
    "REDUCE": (b"\x80\x02}(X\x01\x00\x00\x00a)Ru.", 11),
    "BUILD": (b"\x80\x02}}b.", 4),
    "INST": (b"\x80\x02(ios\nsystem\n.", 3),
    "OBJ": (b"\x80\x02(}o.", 4),
    "NEWOBJ": (b"\x80\x02})\x81.", 4),
    "NEWOBJ_EX": (b"\x80\x04}))\x92.", 5),
    "EXT1": (b"\x80\x02\x82\x01.", 2),
    "EXT2": (b"\x80\x02\x83\x01\x00.", 2),
    "EXT4": (b"\x80\x02\x84\x01\x00\x00\x00.", 2),
    "PERSID": (b"\x80\x02Pid\n.", 2),
    "BINPERSID": (b"\x80\x02NQ.", 3),
    "NEXT_BUFFER": (b"\x80\x05\x97.", 2),
    "READONLY_BUFFER": (b"\x80\x05N\x98.", 3),
    "INT": (b"\x80\x02I1\n.", 2),
    "STRING": (b"(S'a'\n.", 1),
}


def refuse(data, folder, *words):
    """The error document of a file that must be refused."""
    path = folder / "evil.pickle"
    path.write_bytes(data)
    result = start("memory", "--json", *words, path, cwd=folder, timeout=60)
    assert result.returncode == EXIT_INPUT, (result.returncode, result.stdout[:200])
    assert sorted(os.listdir(folder)) == ["evil.pickle"]
    return json.loads(result.stdout)["error"]


@pytest.mark.parametrize("name", NOT_DATA)
def test_what_is_not_data_is_refused_by_name_and_place(tmp_path, name):
    data, offset = NOT_DATA[name]
    error = refuse(data, tmp_path)
    assert f"opcode={name.split()[0]}:" in error["message"]
    assert error["offset"] == offset


class Runs:
    def __reduce__(self):
        return (pathlib.Path.touch, (pathlib.Path("ran"),))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("place", ["value", "frame", "key"])
def test_code_inside_of_a_snapshot_does_not_run(tmp_path, protocol, place):
    snapshot = gen_snapshot.make(events=50)
    if place == "value":
        snapshot["allocator_settings"]["x"] = Runs()
    elif place == "frame":
        snapshot["segments"][0]["blocks"][0]["frames"] = [Runs()]
    else:
        snapshot[Runs()] = 1
    assert "names code to import" in refuse(pickle.dumps(snapshot, protocol), tmp_path)["message"]


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value


DAMAGED = {
    "empty": (b"", "is empty"),
    "protocol 6": (b"\x80\x06}.", "protocol=6"),
    "no opcode": (b"\x80\x02\xff.", "0xff is no opcode"),
    "no stop": (b"\x80\x02}", "ends before its STOP"),
    "text past the end": (b"\x80\x02X\xff\x00\x00\x00abc", "ends before its STOP"),
    "text of 4 GB": (b"\x80\x02X\xff\xff\xff\xffabc.", "length=4294967295"),
    "text of 2^64 B": (b"\x80\x04\x8d" + b"\xff" * 8 + b"abc.", "length=18446744073709551615"),
    "bytes of 2^63 B": (b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.", "is above"),
    "bytearray of 1 TB": (b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".", "is above"),
    "long of 2 GB": (b"\x80\x02\x8b\xff\xff\xff\x7f\x01.", "is above"),
    "nothing to stop at": (b"\x80\x02.", "stack is too short"),
    "no mark": (b"\x80\x02]e.", "there is no mark"),
    "no list": (b"\x80\x02(K\x01e.", "no list to add items to"),
    "no dict": (b"\x80\x02](K\x01K\x02u.", "no dict to set items of"),
    "key without value": (b"\x80\x02}(K\x01u.", "a key has no value"),
    "append to nothing": (b"\x80\x02K\x01a.", "stack is too short"),
    "item from below a mark": (b"\x80\x02]K\x01(a.", "stack is too short"),
    "memo not set": (b"\x80\x02h\x05.", "nothing was put there"),
    "memo bomb": (b"\x80\x02}r\xff\xff\xff\xff.", "beyond all that the file"),
    "memo of nothing": (b"\x80\x02q\x00.", "stack is too short"),
    "no dict at all": (b"\x80\x02K\x01.", "neither segments nor device_traces"),
    "another dict": (pickle.dumps({"a": 1}), "neither segments nor device_traces"),
    "segments no list": (pickle.dumps({"segments": 1}), "is in no list"),
    "segment no dict": (pickle.dumps({"segments": [1]}), "segments[0] is no dict"),
    "size no number": (pickle.dumps({"segments": [{"total_size": "x"}]}), "is no integer"),
    "size negative": (pickle.dumps({"segments": [{"total_size": -2}]}), "out of range"),
    "size of 2^70": (pickle.dumps({"segments": [{"total_size": 1 << 70}]}), "is no integer"),
    "size missing": (pickle.dumps({"segments": [{}]}), "total_size is missing"),
    "trace no list": (pickle.dumps({"device_traces": [1]}), "device_traces[0] is no list"),
    "event no dict": (pickle.dumps({"device_traces": [[1]]}), "is no dict"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged(tmp_path, name):
    data, words = DAMAGED[name]
    assert words in refuse(data, tmp_path)["message"]


def test_every_cut_is_refused(tmp_path):
    data = pickle.dumps(gen_snapshot.make(events=12, depth=3))
    path = tmp_path / "cut.pickle"
    for size in [*range(0, len(data), max(1, len(data) // 40)), len(data) - 1]:
        path.write_bytes(data[:size])
        assert start("memory", path).returncode == EXIT_INPUT, size


def test_cut_compression_is_said(tmp_path):
    data = gzip.compress(pickle.dumps(gen_snapshot.make(events=300)))
    error = refuse(data[: len(data) // 2], tmp_path)
    assert "compressed stream is cut" in error["message"]


def nested_marks(count):
    return b"\x80\x02" + b"(" * count + b"t" * count + b"."


def endless_segments():
    """One segment, named a million times by a list that is named by the snapshot."""
    one = pickle.dumps({"total_size": 0, "blocks": [{"size": 0}] * 1000}, protocol=2)[2:-1]
    references = b"h\xfa" * 1_000_000
    return b"\x80\x02}(" + text(b"segments") + b"](" + one + b"q\xfa" + references + b"eu."


def cyclic():
    """A list of segments that is its own first segment, and frames that hold themselves."""
    return b"\x80\x02}(" + text(b"segments") + b"]q\x01(h\x01eu."


def distinct_blocks(count):
    """Blocks as small as they can stand in a file: a dict of their own each."""
    blocks = b"(" + (b"}" + text(b"size") + b"K\x00s") * count + b"e"
    return (
        b"\x80\x02}("
        + text(b"segments")
        + b"](}("
        + text(b"total_size")
        + b"K\x00"
        + text(b"blocks")
        + b"]"
        + blocks
        + b"ueu."
    )


BOMBS = {
    "marks": (nested_marks(100_000), "more than 512 deep"),
    "lists in lists": (b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".", "is no dict"),
    "endless segments": (endless_segments(), "more often than it has"),
    "cycle": (cyclic(), "is no dict"),
    "many keys": (pickle.dumps({"segments": [{str(i): i for i in range(99)}]}), "too many keys"),
    "sizes beyond all": (
        pickle.dumps({"segments": [{"total_size": 1 << 50} for _ in range(1100)]}),
        "2^60 bytes",
    ),
    "devices": (
        pickle.dumps({"segments": [{"total_size": 1, "device": i} for i in range(300)]}),
        "more than 256 devices",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(tmp_path, name):
    data, words = BOMBS[name]
    assert words in refuse(data, tmp_path)["message"]


def test_memory_is_bounded(tmp_path):
    """Each byte of this pickle makes a value of its own; the bound is kept whatever they need."""
    path = tmp_path / "wide.pickle"
    path.write_bytes(b"\x80\x02]" + b"]" * 30_000_000 + b".")
    peak = tmp_path / "peak"
    command = peak_memory.command([PROGRAM, "memory", "--memory", "64M", path], peak)
    result = subprocess.run(command, capture_output=True, timeout=60)
    assert result.returncode == EXIT_INPUT
    assert b"take more than 67108864 bytes" in result.stderr
    assert peak_memory.peak_bytes(peak) < 160 << 20


def test_memory_is_bounded_when_all_of_it_is_parts(tmp_path):
    """Each block is a dict of its own of a dozen bytes, so nothing of it is named twice."""
    path = tmp_path / "blocks.pickle"
    path.write_bytes(distinct_blocks(500_000))
    peak = tmp_path / "peak"
    command = peak_memory.command([PROGRAM, "memory", "--memory", "96M", path], peak)
    result = subprocess.run(command, capture_output=True, timeout=60)
    assert result.returncode == EXIT_INPUT
    assert b"its parts take more than 100663296 bytes" in result.stderr
    assert peak_memory.peak_bytes(peak) < 200 << 20


def test_appending_one_by_one_is_not_quadratic(tmp_path):
    """Two lists grow in turn, so that neither can grow in place."""
    count = 400_000
    data = b"\x80\x02}(" + text(b"segments") + b"]q\x01" + text(b"a") + b"]q\x02u"
    data += (b"h\x01Na0" + b"h\x02Na0") * count + b"."
    assert b"is no dict" in refuse(data, tmp_path)["message"].encode()


def test_odd_but_well_formed(tmp_path):
    """What picklers may write, though torch does not: DUP, POP, sets, bytes, long integers."""
    body = text(b"segments") + b"]" + text(b"x") + b"(K\x01\x912" + b"0"
    body += text(b"y") + b"C\x03abc" + text(b"z") + b"\x8a\x0c" + b"\x01" * 12
    body += text(b"w") + b"\x8f(K\x01\x90"
    path = tmp_path / "odd.pickle"
    path.write_bytes(b"\x80\x04}(" + body + b"u.")
    assert pickle.loads(path.read_bytes())["x"] == frozenset({1})
    result = start("memory", "--json", path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["snapshots"][0]["segments"] == 0


def test_names_cannot_reach_the_terminal(tmp_path):
    snapshot = gen_snapshot.make(events=60)
    frames = [{"filename": "/a/\x1b[31mb\u202e.py", "line": 1, "name": "f\n\x9b2J\udc80"}]
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            block["frames"] = frames
    path = tmp_path / "names.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    for words in ([], ["--json"], ["--folded", "memory"]):
        out = start("memory", *words, path).stdout
        assert not set(out) & (set(range(32)) - {10}), words
    json.loads(start("memory", "--json", path).stdout)


def test_wrong_use(tmp_path):
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(gen_snapshot.make(events=50)))
    assert start("memory").returncode == 2
    assert start("memory", path, path, path).returncode == 2
    assert start("memory", "--folded", "memory", "--json", path).returncode == 2
    assert start("memory", "--asked", "x", path).returncode == 2
    assert start("memory", "-o", path, path).returncode == 2
    assert start("memory", tmp_path / "none").returncode == EXIT_INPUT
    assert start("memory", tmp_path).returncode == EXIT_INPUT
