"""Goal: input of absurd size, depth or numbers ends with what it holds or with a clear message, in
memory that does not depend on it. Method: streams made on the fly, through a pipe; the peak memory
of the process is measured."""

import gzip
import json
import struct
import subprocess
import tempfile
import threading
import time
import zlib

import peak_memory
import pytest
from test_hostile import KSCOPE

MEMORY_MAX = 400 << 20  # the window of 64 MiB, once more while it grows, and the program
SECONDS_MAX = 120
MIB = 1 << 20

HEAD = b'{"traceEvents":['
TAIL = b"]}"


def event(name="op", ts="1", more=""):
    text = f'{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":1{more}}}'
    return text.encode()


ONE, TWO = event("one", "10"), event("two", "20")


def feed(pipe, pieces):
    try:
        for piece in pieces:
            pipe.write(piece)
        pipe.close()
    except BrokenPipeError:  # it has seen enough
        pass


def report(pieces, *options):
    """(exit status, document); the memory it took is within bounds."""
    with tempfile.NamedTemporaryFile() as peak:
        words = [KSCOPE, "report", "--json", *options, "-"]
        process = subprocess.Popen(
            peak_memory.command(words, peak.name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        feeder = threading.Thread(target=feed, args=(process.stdin, pieces))
        feeder.start()
        begin = time.monotonic()
        out = process.stdout.read()
        status = process.wait()
        feeder.join()
        process.stdout.close()
        assert time.monotonic() - begin < SECONDS_MAX
        assert peak_memory.peak_bytes(peak.name) < MEMORY_MAX
    return status, json.loads(out)


def read(pieces, *options):
    """The one input of a report that must succeed."""
    status, document = report(pieces, *options)
    assert status == 0, document
    (source,) = document["inputs"]
    return source


def refuse(pieces, word, *options):
    status, document = report(pieces, *options)
    assert status == 3
    assert word in document["error"]["message"]


# ------------------------------------------------------------------ bombs


def deflated(first, filler, mebibytes, last=b""):
    """A gzip stream with the same compressed block again and again: made in no time. The sum at its
    end is that of nothing."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    yield b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    yield squeeze.compress(first) + squeeze.flush(zlib.Z_FULL_FLUSH)
    block = squeeze.compress(filler * MIB) + squeeze.flush(zlib.Z_FULL_FLUSH)
    for _ in range(mebibytes):
        yield block
    yield squeeze.compress(last) + squeeze.flush() + bytes(8)


def run_lengths(first, filler, mebibytes):
    """A zstd frame of blocks that say one byte and how often: four bytes for 128 KiB."""
    yield struct.pack("<IBB", 0xFD2FB528, 0, 7 << 3)  # no size, a window of 128 KiB
    yield (len(first) << 3).to_bytes(3, "little") + first
    yield ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + filler
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + filler
    yield block * (8 * mebibytes)


@pytest.mark.parametrize("make", [deflated, run_lengths])
@pytest.mark.parametrize("filler", [b" ", b"["])
def test_bomb(make, filler):
    refuse(make(HEAD, filler, 2000), "Cannot decompress: " if filler == b" " else "Cannot ")


def test_what_shrinks_well_is_no_bomb():
    """300 MiB of blanks in 300 KiB: less than a gibibyte may be what it likes."""
    source = read(deflated(HEAD + ONE, b" ", 300, b"," + TWO + TAIL))
    assert source["events"] == 2


# ------------------------------------------------------------------ gzip and zstd that lie


def packed(text=HEAD + ONE + b"," + TWO + TAIL):
    return gzip.compress(text, mtime=0)


@pytest.mark.parametrize(
    ("name", "data", "events"),
    [
        ("size of 4 GiB less one", packed()[:-4] + b"\xff\xff\xff\xff", 2),
        ("size of nothing", packed()[:-4] + bytes(4), 2),
        ("wrong sum", packed()[:-8] + b"abcd" + packed()[-4:], 2),
        ("no sum", packed()[:-8], 2),
        ("half a size", packed()[:-2], 2),
        ("garbage behind", packed() + b"no gzip", 2),
    ],
)
def test_wrong_gzip_trailer(name, data, events):
    source = read([data])
    damage = source["counts"].get("compressed_damaged", 0) + source["counts"].get(
        "compressed_cut", 0
    )
    assert (source["events"], damage) == (events, 1), name
    refuse([data], "the compressed stream", "--strict")


@pytest.mark.parametrize(
    ("flags", "extra"),
    [
        (4, b"\xff\xff"),  # an extra field of 64 KiB that is not there
        (8, b"n" * 100_000),  # a file name without end
        (0xE0, b""),  # flags that do not exist
    ],
)
def test_wrong_gzip_header(flags, extra):
    refuse([b"\x1f\x8b\x08" + bytes([flags]) + bytes(6) + extra], "Cannot read trace")


def test_a_hundred_thousand_empty_members():
    empty = gzip.compress(b"", mtime=0)
    source = read([empty * 50_000, packed(), empty * 50_000])
    assert (source["events"], source["status"]) == (2, "ok")


def test_wrong_zstd_size():
    """The frame says 2^62 bytes; a raw block holds the few that there are."""
    text = HEAD + ONE + TAIL
    frame = struct.pack("<IBBQ", 0xFD2FB528, 3 << 6, 7 << 3, 1 << 62)
    data = frame + (len(text) << 3 | 1).to_bytes(3, "little") + text
    status, document = report([data])
    if status == 0:
        assert document["inputs"][0]["counts"]["compressed_damaged"] == 1
    else:
        assert status == 3 and "Cannot read trace" in document["error"]["message"]


# ------------------------------------------------------------------ depth


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_million_in_one_another(opening, is_closed):
    """In the arguments of one event; those beside it are read."""
    closing = "".join({"[": "]", "{": "}"}[c] for c in reversed(opening) if c in "[{")
    deep = opening * 1_000_000 + ("1" + closing * 1_000_000 if is_closed else "")
    bad = event("deep", "15", f',"args":{{"x":{deep}}}').replace(b"}}", b"}}" if is_closed else b"")
    pieces = [HEAD, ONE, b",", bad, b",\n", TWO, TAIL]
    source = read(pieces)
    if is_closed and opening == "[":  # brackets alone are counted, however many
        assert (source["events"], source["status"]) == (3, "ok")
        return
    assert source["events"] >= 2 and source["status"] == "repaired"
    refuse(pieces, "Cannot accept damaged input", "--strict")


@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_million_in_one_another_beside_the_events(place):
    deep = b'"x":' + b"[" * 1_000_000 + b"]" * 1_000_000
    events = b'"traceEvents":[' + ONE + b"," + TWO + b"]"
    text = [deep, b",", events] if place == "before" else [events, b",", deep]
    source = read([b"{", *text, b"}"])
    assert (source["events"], source["status"]) == (2, "ok")


def test_a_million_arrays_and_nothing_else():
    refuse([b"[" * 1_000_000], "Cannot ")


# ------------------------------------------------------------------ length


def long_name(mebibytes):
    yield HEAD + ONE + b',{"ph":"X","cat":"cpu_op","name":"'
    for _ in range(mebibytes):
        yield b"n" * MIB
    yield b'","pid":1,"tid":1,"ts":15,"dur":1},' + TWO + TAIL


def test_a_name_that_is_cut():
    source = read(long_name(20))
    assert (source["events"], source["counts"]["repaired_strings"]) == (3, 1)


@pytest.mark.parametrize("mebibytes", [70, 1024])
def test_a_name_without_measure(mebibytes):
    refuse(long_name(mebibytes), "one value is longer than 67108864 bytes")


def test_a_long_list_of_metadata():
    """Skipped as it comes: it need not fit anywhere."""
    numbers = b"1," * (MIB // 2)
    pieces = [b'{"x":[', *[numbers] * 40, b"1],", HEAD[1:], ONE, TAIL]
    assert read(pieces)["events"] == 1


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("ts", "stat"),
    [
        ("1099511627776", None),  # 2^40 us: 12 days
        ("1099511627776.999", None),
        ("4611686018427387904", "time_out_of_range"),  # 2^62
        ("9223372036854775808", "time_out_of_range"),  # 2^63
        ("-9223372036854775809", "time_out_of_range"),
        ("18446744073709551616", "time_out_of_range"),  # 2^64
        ("1" + "0" * 400, "time_out_of_range"),
        ("1e400", "time_out_of_range"),
        ("0." + "0" * 400 + "1", None),
    ],
)
def test_times(ts, stat):
    pieces = [HEAD, ONE, b",", event("far", ts), b",", TWO, TAIL]
    source = read(pieces)
    counts = source["counts"]
    assert source["events"] == (3 if stat is None else 2), counts
    assert not stat or counts.get(stat, 0) + counts.get("missing_time", 0) == 1, counts


def test_durations_reach_no_further_than_time():
    far = event("far", "10").replace(b'"dur":1', b'"dur":9223372036854775')
    source = read([HEAD, ONE, b",", far, TAIL])
    assert (source["events"], source["counts"]["time_out_of_range"]) == (1, 1)
