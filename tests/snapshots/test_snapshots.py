"""Goal: what `kscope memory` says of a snapshot is right. Method: real snapshots and those of a
model of the allocator, against torch.cuda._memory_viz and a twin that counts another way; what must
not change when segments are shuffled, what must add up, and what two snapshots of one program
differ by."""

import copy
import gzip
import importlib.util
import json
import os
import pathlib
import pickle
import random
import re
import subprocess
import sys
import threading

import jsonschema
import pytest
import snapshot_twin as twin
from snapshot_program import DATA, REAL, ROOT, document, gen_snapshot, load, read, start

SCHEMA = json.loads((ROOT / "docs" / "memory.schema.json").read_text())
MODELS = {
    "whole": {"seed": 1, "events": 1500},
    "ring": {"seed": 2, "events": 3000, "ring": 700},
    "two devices": {"seed": 3, "events": 2000, "devices": 2, "ring": 600},
    "short of memory": {"seed": 4, "events": 2500, "budget": 200 << 20},
    "out of memory": {"seed": 5, "events": 99999, "budget": 300 << 20, "until_oom": True},
}
CASES = [*MODELS, *(path.name for path in REAL)]


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    """(snapshot as Python has it, what the program says, file)."""
    folder = tmp_path_factory.mktemp("case")
    if request.param in MODELS:
        snapshot = gen_snapshot.make(**MODELS[request.param])
        path = folder / "snapshot.pickle"
        path.write_bytes(pickle.dumps(snapshot))
    else:
        path = DATA / request.param
        snapshot = pickle.loads(gzip.decompress(path.read_bytes()))
    return snapshot, document(path)["snapshots"][0], path


def stacks_of(rows):
    return {(r["device"], tuple(r["stack"])): r for r in rows}


# ---------------------------------------------------------------- against a twin


def test_totals(case):
    snapshot, said, _ = case
    assert said["devices"] == twin.by_device(snapshot)
    assert said["pools"] == twin.by_pool(snapshot)


def test_holders(case):
    snapshot, said, _ = case
    rows = stacks_of(said["holders"])
    sums = {k: [r["bytes"], r["requested_bytes"], r["count"]] for k, r in rows.items()}
    assert sums == twin.holders(snapshot)
    sizes = [row["bytes"] for row in said["holders"]]
    assert sizes == sorted(sizes, reverse=True)


def test_timelines(case):
    snapshot, said, _ = case
    blocks = {b["address"]: b for s in snapshot["segments"] for b in s["blocks"]}
    frames = {address: twin.text_of(block["frames"]) for address, block in blocks.items()}
    assert len(said["timelines"]) == sum(1 for trace in snapshot["device_traces"] if trace)
    for timeline in said["timelines"]:
        other = twin.Timeline(snapshot, timeline["device"])
        levels, curves = other.levels()
        assert {key: timeline[key] for key in levels} == levels
        peak = timeline["peak"]
        active = curves["active_bytes"]
        assert peak["after_events"] == active.index(max(active))
        assert peak["bytes"] == max(active) == sum(r["bytes"] for r in peak["holders"])
        at_peak = {k[1]: [r["bytes"], r["count"]] for k, r in stacks_of(peak["holders"]).items()}
        assert at_peak == other.holders_at(peak["after_events"], frames)
        assert max(point["active_bytes"] for point in timeline["curve"]) == peak["bytes"]


def test_never_freed(case):
    snapshot, said, _ = case
    for timeline in said["timelines"]:
        trace = snapshot["device_traces"][timeline["device"]]
        open_at = {}
        for event in trace:
            if event["action"] == "alloc":
                open_at[event["addr"]] = event
            elif event["action"] == "free_completed":
                open_at.pop(event["addr"], None)
        left = open_at.values()
        assert timeline["never_freed"]["count"] == len(left)
        assert timeline["never_freed"]["bytes"] == sum(event["size"] for event in left)


def test_nothing_is_noted_of_consistent_snapshots(case):
    assert not any(case[1]["notes"].values())


# ---------------------------------------------------------------- against torch


@pytest.fixture(scope="module")
def memory_viz():
    """torch.cuda._memory_viz without the rest of torch, which takes seconds to import."""
    spec = importlib.util.find_spec("torch")
    if spec is None:
        pytest.skip("torch is not installed")
    folder = pathlib.Path(next(iter(spec.submodule_search_locations)))
    return load(folder / "cuda" / "_memory_viz.py", "memory_viz")


@pytest.mark.parametrize("what", ["memory", "segments"])
def test_folded_stacks_are_those_of_torch(case, memory_viz, what):
    snapshot, _, path = case
    text = getattr(memory_viz, what)(snapshot, format_flamegraph=lambda lines: lines)
    result = start("memory", "--folded", what, path)
    assert result.returncode == 0
    assert result.stdout.decode() == text


def test_summary_of_torch(case, memory_viz):
    snapshot, said, _ = case
    text = memory_viz.segsum(snapshot)
    sums = {key: sum(device[key] for device in said["devices"]) for key in said["devices"][0]}
    inside = sums["allocated_bytes"] - sums["rounding_bytes"]
    free = sums["reserved_bytes"] - inside
    assert f"total_reserved: {memory_viz.Bytes(sums['reserved_bytes'])}\n" in text
    assert f"total_allocated: {memory_viz.Bytes(inside)}\n" in text
    assert f"total_free: {memory_viz.Bytes(free)}" in text
    assert f"segments: {sums['segments']}\n" in text


def test_segments_compared_as_torch_does(tmp_path, memory_viz, capsys):
    before = gen_snapshot.make(seed=7, events=800, budget=300 << 20)
    after = gen_snapshot.make(seed=7, events=1600, budget=300 << 20)
    memory_viz.compare(before["segments"], after["segments"], format_flamegraph=len)
    printed = dict(line.split(" = ") for line in capsys.readouterr().out.splitlines())
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, snapshot in zip(paths, (before, after), strict=True):
        path.write_bytes(pickle.dumps(snapshot))
    said = document(*paths)["comparison"]
    assert said["segments_only_before"] == len(json.loads(printed["only_before"]))
    assert said["segments_only_after"] == len(json.loads(printed["only_after"]))


# ---------------------------------------------------------------- what must hold


def test_sums(case):
    _, said, _ = case
    allocated = sum(device["allocated_bytes"] for device in said["devices"])
    for key in ("holders", "places", "sizes"):
        assert sum(row["bytes"] for row in said[key]) == allocated, key
    for device in said["devices"]:
        pools = [pool for pool in said["pools"] if pool["device"] == device["device"]]
        for key in ("reserved_bytes", "allocated_bytes", "free_bytes", "free_pieces", "segments"):
            assert sum(pool[key] for pool in pools) == device[key]
        assert device["active_bytes"] + device["free_bytes"] == device["reserved_bytes"]


def test_order_of_segments_does_not_matter(tmp_path):
    snapshot = gen_snapshot.make(seed=11, events=1200, devices=2)
    expected = read(snapshot, tmp_path)
    shuffled = copy.deepcopy(snapshot)
    random.Random(1).shuffle(shuffled["segments"])
    found = read(shuffled, tmp_path)
    for key in ("bytes", "path"):
        del found[key], expected[key]
    assert found == expected


def test_a_longer_ring_changes_no_end(tmp_path):
    """The end of a trace tells the same about its own time, however much came before it."""
    whole = read(gen_snapshot.make(seed=12, events=2000), tmp_path)["timelines"][0]
    ring = read(gen_snapshot.make(seed=12, events=2000, ring=500), tmp_path)["timelines"][0]
    for key in ("active_bytes", "allocated_bytes", "reserved_bytes"):
        assert ring[key]["end"] == whole[key]["end"]
        assert 0 <= ring[key]["peak"] <= whole[key]["peak"]


@pytest.mark.parametrize("protocol", [2, 3, 4, "libtorch"])
def test_protocols_say_the_same(tmp_path, protocol):
    snapshot = gen_snapshot.make(seed=13, events=2500)
    expected = read(snapshot, tmp_path, 5)
    found = read(snapshot, tmp_path, protocol)
    assert expected.pop("protocol") == 5
    assert found.pop("protocol") == (2 if protocol == "libtorch" else protocol)
    del found["bytes"], expected["bytes"]
    assert found == expected


def test_compressed_and_from_a_pipe(tmp_path):
    data = pickle.dumps(gen_snapshot.make(seed=14, events=900))
    plain, packed = tmp_path / "s.pickle", tmp_path / "s.pickle.gz"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data))
    said = [document(plain), document(packed), document("-", input=data)]
    for one in said:
        del one["snapshots"][0]["path"]
    assert said[0] == said[1] == said[2]


@pytest.mark.parametrize("words", [[], ["--asked", "3GiB"]])
def test_document_follows_schema(case, words):
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.check_schema(SCHEMA)
    validator.validate(document(*words, case[2]))
    validator.validate(document("--limit", 2, case[2], case[2]))


# ---------------------------------------------------------------- out of memory


def test_out_of_memory_at_the_end_is_exact(tmp_path):
    snapshot = gen_snapshot.make(seed=5, events=99999, budget=300 << 20, until_oom=True)
    said = read(snapshot, tmp_path)
    (oom,) = said["out_of_memory"]
    device = said["devices"][0]
    event = snapshot["device_traces"][0][-1]
    assert oom["is_exact"]
    assert oom["asked_bytes"] == event["size"]
    assert oom["device_free_bytes"] == event["device_free"]
    for key in ("free_bytes", "free_pieces", "free_largest_bytes", "reserved_bytes"):
        assert oom[key] == device[key]
    assert oom["stack"] == list(twin.text_of(event["frames"]))


def test_out_of_memory_in_between_is_worked_out(tmp_path):
    arguments = {"seed": 6, "events": 2500, "ring": None, "devices": 1, "depth": 9}
    snapshot, (allocator,) = gen_snapshot.make_both(**arguments, budget=200 << 20, until_oom=False)
    said = read(snapshot, tmp_path)
    assert said["out_of_memory_total"] == len(allocator.at_oom) > 4
    for row, (reserved, free) in zip(said["out_of_memory"], allocator.at_oom[-3:], strict=True):
        assert row["reserved_bytes"] == reserved
        assert row["held_bytes"] + row["free_bytes"] == reserved
        # Blocks that were not split have more than is known of them: at most 1 MiB each.
        assert free <= row["free_bytes"] <= free + (16 << 20)


def segment(address, *sizes, pool=(0, 0)):
    """Blocks one behind the other; negative sizes are free ones."""
    blocks = []
    at = address
    for size in sizes:
        state = "inactive" if size < 0 else "active_allocated"
        block = {"address": at, "size": abs(size), "requested_size": abs(size), "state": state}
        blocks.append(block | {"frames": []})
        at += abs(size)
    head = {"address": address, "total_size": at - address, "device": 0, "stream": 0}
    return head | {"segment_type": "large", "segment_pool_id": pool, "blocks": blocks}


MIB = 1 << 20
# Free pieces (MiB), asked, free on the device (None: only asked, no event), expandable: verdict.
VERDICTS = [
    ([8, 8, 8], 20, 0, False, "fragmented"),
    ([8, 8, 8], 20, 0, True, "fragmented_though_expandable"),
    ([8, 8, 8], 30, 10, False, "fragmented"),
    ([8, 8, 8], 30, 2, False, "too_little_memory"),
    ([1, 1, 1], 2, 0, False, "too_little_memory"),
    ([32], 20, 0, False, "other_pool"),
    ([32], 20, None, False, "fits"),
    ([8, 8, 8], 20, None, False, "fragmented"),
    ([8], 20, 4096, False, "limited"),
    ([3] * 8, 20, 0, False, "too_little_memory"),
    ([8, 8], 20, None, False, "needs_more_from_device"),
    ([], 20, 5, False, "too_little_memory"),
]


@pytest.mark.parametrize(("free", "asked", "device", "expandable", "verdict"), VERDICTS)
def test_verdicts(tmp_path, free, asked, device, expandable, verdict):
    sizes = [part for piece in free for part in (16 * MIB, -piece * MIB)] or [16 * MIB]
    event = {"action": "oom", "size": asked * MIB, "stream": 0, "frames": []}
    snapshot = {
        "segments": [segment(1 << 40, *sizes)],
        "device_traces": [[event | {"device_free": device * MIB}]] if device is not None else [[]],
        "allocator_settings": {"expandable_segments": expandable},
    }
    words = ["--asked", f"{asked}M"] if device is None else []
    (row,) = read(snapshot, tmp_path, 5, *words)["out_of_memory"]
    assert row["verdict"] == verdict
    assert row["free_pieces"] == len(free)
    together = (sum(free) + (device or 0)) * MIB
    is_short = verdict in ("too_little_memory", "needs_more_from_device")
    assert row["missing_bytes"] == (max(0, asked * MIB - together) if is_short else 0)
    assert ("expandable_segments:True" in row["text"]) == (verdict == "fragmented")


def test_what_was_free_when_memory_ran_out_in_the_middle(tmp_path):
    """By hand: two segments side by side, one that came later, one that went later."""
    a, b, came, gone = 1 << 40, (1 << 40) + 20 * MIB, 1 << 41, 1 << 42
    first, second = (a, 10 * MIB - 100), (b + 8 * MIB, 12 * MIB)
    names = ("action", "addr", "size", "time_us")
    rows = [
        ("alloc", *first, 1),
        ("alloc", *second, 2),
        ("oom", None, 30 * MIB, 3),
        *(
            (f"free_{what}", *block, 4)
            for block in (first, second)
            for what in ("requested", "completed")
        ),
        ("segment_free", gone, 4 * MIB, 5),
        ("segment_alloc", came, 64 * MIB, 6),
    ]
    trace = [dict(zip(names, row, strict=True)) | {"stream": 0, "frames": []} for row in rows]
    trace[2] = {k: v for k, v in trace[2].items() if k != "addr"} | {"device_free": 0}
    snapshot = {
        "segments": [segment(a, -20 * MIB), segment(b, -20 * MIB), segment(came, -64 * MIB)],
        "device_traces": [trace],
    }
    (row,) = read(snapshot, tmp_path, 5)["out_of_memory"]
    assert not row["is_exact"]
    assert (row["free_bytes"], row["free_pieces"]) == (22 * MIB, 3)
    assert (row["reserved_bytes"], row["free_largest_bytes"]) == (44 * MIB, 10 * MIB)


# ---------------------------------------------------------------- traces that have holes


def event(action, address, size, time_us, *frames):
    lines = [{"filename": f, "line": 1, "name": f} for f in frames]
    row = {"action": action, "addr": address, "size": size, "time_us": time_us}
    return row | {"stream": 0, "frames": lines}


def timeline_of(folder, trace, *segments):
    said = read({"segments": list(segments), "device_traces": [trace]}, folder)
    return said["timelines"][0], said


def test_block_whose_begin_nobody_saw_is_as_old_as_the_free_before(tmp_path):
    at = 1 << 40
    trace = [
        event("alloc", at, 2 * MIB, 1),
        event("free_requested", at, 2 * MIB, 2),
        event("free_completed", at, 2 * MIB, 3),
        event("alloc", at + 2 * MIB, 2 * MIB, 4),
    ]
    timeline, said = timeline_of(tmp_path, trace, segment(at, 2 * MIB, 2 * MIB))
    assert timeline["active_bytes"]["start"] == 0
    assert (timeline["active_bytes"]["peak"], timeline["active_bytes"]["end"]) == (4 * MIB, 4 * MIB)
    assert said["notes"]["allocs_missing"] == 1


def test_allocation_over_another_ends_that_one(tmp_path):
    at = 1 << 40
    trace = [event("alloc", at, 2 * MIB, 1), event("alloc", at, 2 * MIB, 2)]
    timeline, said = timeline_of(tmp_path, trace, segment(at, 2 * MIB))
    assert timeline["active_bytes"]["peak"] == 2 * MIB
    assert said["notes"]["frees_missing"] == 1


def test_allocation_that_the_end_does_not_have_is_left_out(tmp_path):
    at = 1 << 40
    trace = [event("alloc", at, 8 * MIB, 1), event("alloc", at + 8 * MIB, 2 * MIB, 2)]
    timeline, said = timeline_of(tmp_path, trace, segment(at, -8 * MIB, 2 * MIB))
    assert timeline["active_bytes"]["peak"] == 2 * MIB
    assert said["notes"]["frees_missing"] == 1


def test_stack_of_the_event_comes_before_that_of_the_block(tmp_path):
    at = 1 << 40
    held = segment(at, 2 * MIB)
    held["blocks"][0]["frames"] = [{"filename": "end.py", "line": 1, "name": "end"}]
    timeline, _ = timeline_of(tmp_path, [event("alloc", at, 2 * MIB, 1, "event.py")], held)
    assert [row["place"] for row in timeline["peak"]["places"]] == ["event.py:1 event.py"]
    trace = [event("alloc", at + 4 * MIB, MIB, 1)]
    timeline, _ = timeline_of(tmp_path, trace, held, segment(at + 4 * MIB, MIB))
    assert "end.py:1 end" in [row["place"] for row in timeline["peak"]["places"]]


def test_segments_that_do_not_add_up_give_no_curve_of_reserved_memory(tmp_path):
    at = 1 << 40
    trace = [event("segment_alloc", at + 64 * MIB, 64 * MIB, 1), event("alloc", at, 2 * MIB, 2)]
    timeline, _ = timeline_of(tmp_path, trace, segment(at, 2 * MIB))
    assert timeline["reserved_bytes"] is None


def test_all_rows_and_a_limit_exclude_each_other():
    refused = start("memory", "--limit", 3, "--all-rows", DATA / "A.leak.bad.snapshot.pickle.gz")
    assert refused.returncode == 2 and b"--limit with --all-rows" in refused.stderr


# ---------------------------------------------------------------- two snapshots


def test_what_came_and_went(tmp_path):
    """Blocks are moved from one snapshot to another by hand; nothing else may be said to change."""
    before = gen_snapshot.make(seed=21, events=900)
    after = copy.deepcopy(before)
    frames = [{"filename": "/srv/train/new.py", "line": 7, "name": "keep"}]
    after["segments"].append(segment(1 << 50, 4 * MIB, 2 * MIB, -14 * MIB))
    for block in after["segments"][-1]["blocks"][:2]:
        block["frames"] = frames
    gone = next(b for s in after["segments"] for b in s["blocks"] if b["state"] == twin.ACTIVE[0])
    gone["state"] = "inactive"
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, snapshot in zip(paths, (before, after), strict=True):
        path.write_bytes(pickle.dumps(snapshot))
    said = document(*paths)["comparison"]
    assert said["came_bytes"] == 6 * MIB
    assert said["went_bytes"] == gone["size"]
    assert len(said["holders"]) == 2
    came = next(row for row in said["holders"] if row["change_bytes"] > 0)
    assert came["place"] == "new.py:7 keep"
    assert (came["bytes_before"], came["bytes_after"], came["count_after"]) == (0, 6 * MIB, 2)
    assert (said["segments_only_before"], said["segments_only_after"]) == (0, 1)
    assert document(paths[0], paths[0])["comparison"]["holders"] == []
    back = document(*reversed(paths))["comparison"]
    assert (back["came_bytes"], back["went_bytes"]) == (gone["size"], 6 * MIB)


# ---------------------------------------------------------------- the page


def test_worked_example_of_the_page(tmp_path):
    page = (ROOT / "docs" / "memory.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.S)
    (shown,) = re.findall(r"```\n\$ kscope memory snapshot.pickle\n(.*?)```", page, re.S)
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    result = start("memory", "--width", 100, "snapshot.pickle", cwd=tmp_path)
    assert result.stdout.decode() == shown


# ---------------------------------------------------------------- the real ones


def test_leak_is_seen():
    said = document(DATA / "A.leak.bad.snapshot.pickle.gz")["snapshots"][0]["timelines"][0]
    assert said["growth"]["in_each_step"]
    assert 60 * MIB < said["growth"]["bytes_per_step"] < 70 * MIB
    assert said["never_freed"]["places"][0]["place"].startswith("gen_corpus.py:238")
    assert said["never_freed"]["places"][0]["bytes"] > 0.99 * said["never_freed"]["bytes"]


def test_report_shows_a_snapshot():
    path = DATA / "A.leak.bad.snapshot.pickle.gz"
    memory, report = start("memory", path), start("report", path)
    assert memory.returncode == report.returncode == 0
    assert memory.stdout == report.stdout
    for words in (["--html", "page.html"], ["--compare", path], ["--group-by", "shape"]):
        refused = start("report", *words, path)
        assert refused.returncode == 2
        assert b"is a memory snapshot" in refused.stderr


def test_report_leaves_a_pipe_whole(tmp_path):
    """What is looked at to tell a snapshot from a trace would be lost to who reads the trace."""
    trace = ROOT / "tests" / "data" / "A.healthy.good.pt.trace.json.gz"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    feeder = threading.Thread(target=pipe.write_bytes, args=(gzip.decompress(trace.read_bytes()),))
    feeder.start()
    piped = start("report", "--json", "--no-cache", pipe)
    feeder.join()
    assert piped.returncode == 0, piped.stderr.decode()
    told, plain = json.loads(piped.stdout), start("report", "--json", "--no-cache", trace)
    assert told["steps"] == json.loads(plain.stdout)["steps"]


def test_folded_is_of_one_snapshot():
    path = DATA / "A.leak.bad.snapshot.pickle.gz"
    refused = start("memory", "--folded", "memory", path, path)
    assert refused.returncode == 2 and b"two snapshots" in refused.stderr


def test_pools_and_categories_that_are_not_shown_are_counted(tmp_path):
    segments = [segment(i << 40, 2 * MIB, pool=(0, i)) for i in range(1, 16)]
    for i, one in enumerate(segments):
        one["blocks"][0]["category"] = f"kind {i}"
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": []}))
    text = start("memory", "--limit", 4, path).stdout.decode()
    words = " ".join(text.split())
    assert "and 11 more pools" in words and "; and 11 more note" in words
    assert "more pools" not in start("memory", "--all-rows", path).stdout.decode()


def test_free_memory_of_the_device_that_is_not_told(tmp_path):
    event = {"action": "oom", "size": 9 * MIB, "stream": 0, "time_us": 1, "frames": []}
    snapshot = {"segments": [segment(1 << 40, 2 * MIB)], "device_traces": [[event]]}
    (row,) = read(snapshot, tmp_path)["out_of_memory"]
    assert row["device_free_bytes"] is None and row["verdict"] == "needs_more_from_device"


def test_text_tells_the_numbers_of_the_document(case):
    _, said, path = case
    text = start("memory", "--width", 1000, path).stdout.decode()
    for device in said["devices"]:
        assert f"({device['reserved_bytes']:,} B)" in text
        assert f"({device['allocated_bytes']:,} B)" in text
    for row in said["places"][:5]:
        assert row["place"].split("(")[0][:20] in text
    narrow = start("memory", "--width", 60, path).stdout.decode().splitlines()
    assert max(map(len, narrow)) <= 60
