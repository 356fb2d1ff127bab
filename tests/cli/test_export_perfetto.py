"""Goal: Perfetto traces hold the spans, arguments, launches and counters of the trace. Method: they
are decoded by Perfetto's own schema; tracks are replayed as its reader does it, and compared with
the rows of kscope query."""

import collections
import gzip
import json

import pytest
from cli_program import ROOT
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

DATA = ROOT / "tests" / "data"
GPU = DATA / "A.host_sync.bad.pt.trace.json.gz"
RANKS = [DATA / f"D.straggler.bad.rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
RECORDING = ROOT / "tests" / "golden" / "capture" / "recording" / "input.ksrec.gz"
TRACES = [
    [GPU],
    [DATA / "A.python_bound.bad.pt.trace.json.gz"],
    [DATA / "A.dataloader.bad.pt.trace.json.gz"],
    [DATA / "A.leak.bad.pt.trace.json.gz"],
    RANKS,
]
Event = schema.TrackEvent
Span = collections.namedtuple("Span", "name category start dur track args flows")


class Decoded:
    """What a reader of the format makes of a file."""

    def __init__(self, data):
        trace = schema.Trace()
        trace.ParseFromString(data)
        self.tracks, self.names, self.events = {}, {}, []
        self.clocks = {}
        for packet in trace.packet:
            self.take(packet)
        self.events.sort(key=lambda event: event[0])  # stable, as the reader does
        self.spans, self.instants, self.counters = [], [], collections.defaultdict(list)
        self.replay()

    def take(self, packet):
        assert not packet.HasField("trace_packet_defaults")
        assert packet.trusted_packet_sequence_id == 1
        for kind in ("event_categories", "event_names", "debug_annotation_names"):
            for one in getattr(packet.interned_data, kind):
                assert self.names.setdefault((kind, one.iid), one.name) == one.name
        for one in packet.interned_data.debug_annotation_string_values:
            self.names["text", one.iid] = one.str.decode()
        if packet.HasField("clock_snapshot"):
            self.clocks = {one.clock_id: one.timestamp for one in packet.clock_snapshot.clocks}
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in self.tracks
            assert not track.HasField("parent_uuid") or track.parent_uuid in self.tracks
            self.tracks[track.uuid] = track
        if packet.HasField("track_event"):
            assert packet.track_event.track_uuid in self.tracks
            self.events.append((packet.timestamp, self.resolve(packet.track_event)))

    def resolve(self, event):
        args = {}
        for one in event.debug_annotations:
            value = getattr(one, one.WhichOneof("value"))
            if one.WhichOneof("value") == "string_value_iid":
                value = self.names["text", value]
            args[self.names["debug_annotation_names", one.name_iid]] = value
        categories = [self.names["event_categories", iid] for iid in event.category_iids]
        name = self.names["event_names", event.name_iid] if event.name_iid else ""
        return event, name, (categories or [""])[0], args

    def replay(self):
        stacks = collections.defaultdict(list)
        for at, (event, name, category, args) in self.events:
            stack = stacks[event.track_uuid]
            if event.type == Event.TYPE_SLICE_BEGIN:
                stack.append((at, name, category, args, list(event.flow_ids)))
            elif event.type == Event.TYPE_SLICE_END:
                start, name, category, args, flows = stack.pop()
                self.spans.append(
                    Span(name, category, start, at - start, event.track_uuid, args, flows)
                )
            elif event.type == Event.TYPE_INSTANT:
                self.instants.append((name, at, event.track_uuid, args))
            else:
                assert event.type == Event.TYPE_COUNTER
                self.counters[event.track_uuid].append((at, event.double_counter_value))
        assert not any(stacks.values()), "all that begins ends"

    def path(self, uuid):
        track = self.tracks[uuid]
        if track.HasField("process"):
            return [track.process.process_name]
        parent = self.path(track.parent_uuid) if track.HasField("parent_uuid") else []
        return [*parent, track.thread.thread_name if track.HasField("thread") else track.name]


def query(kscope, sql, *paths):
    run = kscope("query", "--json", *paths, sql)
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    return [dict(zip(document["columns"], row, strict=True)) for row in document["rows"]]


def export(kscope, tmp_path, *words):
    target = tmp_path / "trace.pftrace"
    run = kscope("export", "--to", "perfetto", "-o", target, *words)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    return Decoded(target.read_bytes())


def key_of(row):
    return (row["name"] or "", row["category"] or "", row["ts_ns"], row["dur_ns"])


def known(pairs):
    return {key: value for key, value in pairs.items() if value is not None}


def slice_args(row):
    is_python = row["category"] == "python_function"
    return known({
        "External id": row["external_id"], "correlation": row["correlation"],
        "Sequence number": row["sequence"], "Input Dims": row["input_shapes"],
        "Input type": row["input_types"], "unfinished": row["is_unfinished"] or None,
        "CallFrom" if is_python else "Concrete Inputs": row["concrete_inputs"],
    })  # fmt: skip


def as_real(number):
    return None if number is None else float(number)


def gpu_args(row):
    return known({
        "External id": row["external_id"], "correlation": row["correlation"],
        "bytes": row["bytes"], "grid": row["grid"], "block": row["block"],
        "registers per thread": row["registers"],
        "shared memory": row["shared_bytes"] if row["registers"] else None,
        "est. achieved occupancy": as_real(row["occupancy"]),
        "Collective name": row["collective"],
        "Process Group Name": row["collective_group"],
        "Process Group Ranks": row["collective_ranks"], "dtype": row["collective_dtype"],
        "In msg nelems": row["collective_in_elements"],
        "Out msg nelems": row["collective_out_elements"],
        "Group size": row["collective_group_size"],
    })  # fmt: skip


def with_args(pairs):
    return collections.Counter((key, json.dumps(args, sort_keys=True)) for key, args in pairs)


@pytest.mark.parametrize("paths", TRACES, ids=lambda paths: paths[0].name.split(".pt")[0])
def test_spans_are_the_rows(kscope, tmp_path, paths):
    decoded = export(kscope, tmp_path, *paths)
    truth = [(key_of(row), slice_args(row)) for row in query(kscope, "select * from slice", *paths)]
    truth += [(key_of(row), gpu_args(row)) for row in query(kscope, "select * from gpu", *paths)]
    found = [((one.name, one.category, one.start, one.dur), one.args) for one in decoded.spans]
    assert len(truth) > 100
    assert with_args(found) == with_args(truth)


@pytest.mark.parametrize("paths", [[GPU], RANKS], ids=["one", "ranks"])
def test_launches_are_flows(kscope, tmp_path, paths):
    decoded = export(kscope, tmp_path, *paths)
    ends = collections.defaultdict(list)
    for one in decoded.spans:
        for flow in one.flows:
            ends[flow].append(one)
    pairs = collections.Counter()
    for spans in ends.values():
        launch, *work = sorted(spans, key=lambda one: "cuda" not in one.category)
        assert launch.category in ("cuda_runtime", "cuda_driver")
        assert {one.args["correlation"] for one in spans} == {launch.args["correlation"]}
        pairs.update((launch.start, one.start) for one in work)
    truth = collections.Counter(
        (row["launch_ns"], row["ts_ns"])
        for row in query(
            kscope, "select launch_ns, ts_ns from gpu where launch_ns is not null and "
            "category in ('kernel', 'gpu_memcpy', 'gpu_memset')", *paths,
        )
    )  # fmt: skip
    assert truth
    assert pairs == truth


def test_tracks_are_named(kscope, tmp_path):
    decoded = export(kscope, tmp_path, *RANKS)
    used = {tuple(decoded.path(one.track)) for one in decoded.spans}
    for rank in (0, 1):
        assert any(path[0].startswith(f"rank {rank}, process ") and
                   path[1].startswith("thread ") for path in used)  # fmt: skip
        assert any(path[0].startswith(f"rank {rank}, GPU {rank}: NVIDIA") and
                   path[1].startswith("stream ") for path in used)  # fmt: skip
    processes = [track.process for track in decoded.tracks.values() if track.HasField("process")]
    threads = [track.thread for track in decoded.tracks.values() if track.HasField("thread")]
    assert {one.pid for one in threads} <= {one.pid for one in processes}
    owner = {}
    for one in threads:
        assert owner.setdefault(one.tid, one.pid) == one.pid, "a tid is of one process"


def test_the_clock_is_that_of_the_trace(kscope, tmp_path):
    decoded = export(kscope, tmp_path, GPU)
    origin = int(json.loads(kscope("report", "--json", GPU).stdout)["origin_ns"])
    assert decoded.clocks == {1: origin, 6: 0}


def test_memory_is_a_counter(kscope, tmp_path):
    path = DATA / "A.leak.bad.pt.trace.json.gz"
    truth = collections.defaultdict(list)
    for row in query(kscope, "select * from memory order by id", path):
        place = "host" if row["device"] is None else f"GPU {row['device']}"
        for what in ("allocated", "reserved"):
            if row[f"{what}_bytes"] is not None:
                truth[f"{place} memory, {what}"].append((row["ts_ns"], row[f"{what}_bytes"]))
    decoded = export(kscope, tmp_path, path)
    found = {decoded.tracks[uuid].name: values for uuid, values in decoded.counters.items()}
    assert truth
    assert found == truth
    units = {decoded.tracks[uuid].counter.unit for uuid in decoded.counters}
    assert units == {schema.CounterDescriptor.UNIT_SIZE_BYTES}


def test_recordings_keep_values_and_units(kscope, tmp_path):
    decoded = export(kscope, tmp_path, RECORDING)
    regions = {(one.name, one.start): one.args for one in decoded.spans}
    for row in query(kscope, "select * from slice", RECORDING):
        assert regions[row["name"], row["ts_ns"]] == known(
            {"category": row["region_category"], "values": row["region_values"]}
        )
    marks = query(kscope, "select * from mark order by ts_ns", RECORDING)
    instants = [(name, at, args) for name, at, _, args in decoded.instants]
    assert instants == [
        (row["name"], row["ts_ns"], {"category": row["series"], "values": row["mark_values"]})
        for row in marks if not row["is_counter"]
    ]  # fmt: skip
    assert len(instants) == 2 and json.loads(instants[1][2]["values"])["step"] == 1
    units = {
        decoded.tracks[uuid].name: decoded.tracks[uuid].counter.unit_name
        for uuid in decoded.counters
    }
    assert units == {
        "lr": "",
        "tokens, input": "token",
        "cpu.process, percent": "percent",
        "cpu.core, percent 0": "percent",
    }


# ---------------------------------------------------------------- what is chosen


def spans_of(decoded):
    return collections.Counter((one.name, one.category, one.start, one.dur)
                               for one in decoded.spans)  # fmt: skip


def test_times_and_categories(kscope, tmp_path):
    inside = "ts_ns < 35500000 and (ts_ns >= 20000000 or ts_ns + dur_ns > 20000000)"
    wanted = "category in ('kernel', 'cuda_runtime')"
    sql = "select name, category, ts_ns, dur_ns from {} where " + f"{inside} and {wanted}"
    rows = query(kscope, sql.format("slice"), GPU) + query(kscope, sql.format("gpu"), GPU)
    decoded = export(kscope, tmp_path, "--time", "20:35.5", "--category", "kernel,cuda_runtime",
                     GPU)  # fmt: skip
    assert rows
    assert spans_of(decoded) == collections.Counter(map(key_of, rows))
    assert not decoded.counters


def test_steps(kscope, tmp_path):
    step = query(kscope, "select * from fact_steps limit 1 offset 1", GPU)[0]
    start, end = step["host_start_ns"], step["host_start_ns"] + step["host_ns"]
    rows = query(kscope, f"select * from slice where ts_ns >= {start} and ts_ns < {end}", GPU)
    rows += query(kscope, f"select * from gpu where launch_ns >= {start} and launch_ns < {end}",
                  GPU)  # fmt: skip
    decoded = export(kscope, tmp_path, "--steps", step["number"], GPU)
    assert rows
    assert spans_of(decoded) == collections.Counter(map(key_of, rows))


# ---------------------------------------------------------------- what is made up


def write_trace(path, events):
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_spans_that_overlap_keep_their_length(kscope, tmp_path):
    spans = [(0, 10), (5, 10), (5, 10), (5, 0), (7, 20), (8, 1), (30, 1), (30, 0), (31, 5)]
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"s{i}", "pid": 1, "tid": 1, "ts": ts, "dur": dur}
        for i, (ts, dur) in enumerate(spans)
    ]
    decoded = export(kscope, tmp_path, write_trace(tmp_path / "overlap.json", events))
    assert {one.name: (one.start // 1000, one.dur // 1000) for one in decoded.spans} == {
        f"s{i}": span for i, span in enumerate(spans)
    }
    assert {decoded.path(one.track)[-1] for one in decoded.spans} == {"thread 1", "overlapping"}


def test_counters_and_instants(kscope, tmp_path):
    events = [
        {"ph": "C", "name": "queue", "pid": 1, "ts": 1, "args": {"a": 1, "b": 2.5}},
        {"ph": "C", "name": "queue", "pid": 1, "ts": 2, "args": {"a": 3}},
        {"ph": "i", "cat": "x", "name": "here", "pid": 1, "tid": 1, "ts": 3, "s": "t"},
        {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 0, "dur": 9},
    ]
    decoded = export(kscope, tmp_path, write_trace(tmp_path / "marks.json", events))
    assert {decoded.tracks[uuid].name: values for uuid, values in decoded.counters.items()} == {
        "queue, a": [(1000, 1.0), (2000, 3.0)], "queue, b": [(1000, 2.5)],
    }  # fmt: skip
    assert [(name, at) for name, at, *_ in decoded.instants] == [("here", 3000)]


def test_numbers_that_meet(kscope, tmp_path):
    """Two ranks of one pid and tid, and a pid and a tid that are no numbers."""
    for rank in (0, 1):
        events = [
            {"ph": "X", "cat": "cpu_op", "name": f"op{rank}", "pid": pid, "tid": tid, "ts": 1,
             "dur": 1}
            for pid, tid in ((7, 9), ("text", "more"), (0, 2**40))
        ]  # fmt: skip
        (tmp_path / f"rank{rank}.json").write_text(
            json.dumps({"distributedInfo": {"rank": rank, "world_size": 2},
                        "traceEvents": events})
        )  # fmt: skip
    decoded = export(kscope, tmp_path, tmp_path / "rank0.json", tmp_path / "rank1.json")
    threads = {}
    for one in decoded.spans:
        thread = decoded.tracks[one.track].thread
        assert threads.setdefault((thread.pid, thread.tid), one.name) == one.name
    assert len(threads) == 6
    assert len({tid for _, tid in threads}) == 6
    assert all(0 < number < 2**31 for pair in threads for number in pair)


def test_a_compressed_file(kscope, tmp_path, small):
    target = tmp_path / "trace.pftrace.gz"
    assert kscope("export", "--to", "perfetto", "-o", target, small).returncode == 0
    assert len(Decoded(gzip.decompress(target.read_bytes())).spans) == 3
