"""Goal: reports keep their promises (promises.py) whatever faults come together. Method: random
subsets of faults, in drawn traces and in real ones; a report that was tampered with is noticed.

KSCOPE_CORPUS may name a folder of more traces; KSCOPE_TEST_SLOW draws more.
"""

import copy
import gzip
import json
import os
import pathlib
import random
import re
import sys

import planted_trace
import pytest
from planted_trace import MS
from promises import broken
from rule_texts import DATA, ROOT, report_of, unpacked

sys.path.insert(0, str(ROOT / "tests" / "oracle"))

import trace_text  # noqa: E402

IS_SLOW = bool(os.environ.get("KSCOPE_TEST_SLOW"))
SEEDS = range(600 if IS_SLOW else 80)
REAL_SEEDS = range(40 if IS_SLOW else 6)
SMALL = ("A.recompiles.good", "A.churn.bad", "A.host_sync.good")
EXTRA = os.environ.get("KSCOPE_CORPUS")


def recordings(folder):
    """Traces of one run each: those of the ranks of a job together."""
    runs = {}
    for path in sorted(folder.glob("*.pt.trace.json.*z")):
        runs.setdefault(re.sub(r"\.rank\d+", "", path.name), []).append(path)
    return runs


RECORDINGS = recordings(DATA) | (recordings(pathlib.Path(EXTRA)) if EXTRA else {})


def faults_of(rng):
    return rng.sample(planted_trace.IDS, rng.choice((0, 1, 1, 2, 3, 4, 6, 10)))


def write(folder, traces):
    paths = [folder / f"{i}.json" for i in range(len(traces))]
    for path, trace in zip(paths, traces, strict=True):
        path.write_bytes(trace_text.render(trace, "compact"))
    return paths


@pytest.fixture(scope="module")
def found():
    """Ids that some drawn trace has shown."""
    return set()


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_faults(seed, tmp_path, found):
    rng = random.Random(seed)
    faults = faults_of(rng)
    doc = report_of(write(tmp_path, planted_trace.draw(rng, faults)))
    assert broken(doc) == [], faults
    found.update(finding["id"] for finding in doc["findings"])


def test_the_drawn_faults_are_seen(found, tmp_path):
    """Promises of reports without findings are worth nothing."""
    rng = random.Random(1)
    for id in planted_trace.IDS:
        for _ in range(60):
            if id in found:
                break
            doc = report_of(write(tmp_path, planted_trace.draw(rng, {id})))
            assert broken(doc) == [], id
            found.update(finding["id"] for finding in doc["findings"])
    assert set(planted_trace.IDS) <= found


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings(name, tmp_path):
    with unpacked(RECORDINGS[name]) as paths:
        assert broken(report_of(paths)) == []


# ---------------------------------------------------------------- faults in real traces


def make_room(trace, at, ns):
    """Moves all that begins from `at` on by `ns`, and makes longer what is open then."""
    for event in trace["events"]:
        if "ts" not in event:
            continue
        if event["ts"] >= at:
            event["ts"] += ns
        elif event["ts"] + event.get("dur", 0) > at:
            event["dur"] += ns


def steps_of(trace):
    steps = [e for e in trace["events"] if e.get("name", "").startswith("ProfilerStep#")]
    steps = [e for e in steps if e.get("cat") == "user_annotation"]
    return sorted(steps, key=lambda e: e["ts"])


def note(step, name, at, ns):
    event = {"ph": "X", "cat": "user_annotation", "name": name, "ts": at, "dur": ns}
    return event | {"pid": step["pid"], "tid": step["tid"], "args": {}}


def plant_gap(trace, step, at, ns):
    make_room(trace, at, ns)


def plant_wait(trace, step, at, ns):
    make_room(trace, at, ns + 2)
    trace["events"].append(note(step, planted_trace.LOADER, at + 1, ns))


def plant_driver_calls(trace, step, at, ns):
    make_room(trace, at, ns + 2)
    for i, name in enumerate(("cudaFree", "cudaMalloc")):
        event = note(step, name, at + 1 + i * (ns // 2), ns // 2)
        trace["events"].append(event | {"cat": "cuda_runtime"})


def plant_compilation(trace, step, at, ns):
    make_room(trace, at, ns + 2)
    event = note(step, "_compile.compile_inner (dynamo_timed)", at + 1, ns)
    trace["events"].append(event | {"cat": "cpu_op"})


PLANTS = (plant_gap, plant_wait, plant_driver_calls, plant_compilation)


def slow_down(trace, rng):
    """Work on the device takes longer, where there is room until the next one on its stream."""
    factor = rng.uniform(1, 3)
    streams = {}
    for event in trace["events"]:
        if event.get("cat") in ("kernel", "gpu_memcpy"):
            streams.setdefault((event["pid"], event["tid"]), []).append(event)
    for rows in streams.values():
        rows.sort(key=lambda e: e["ts"])
        for row, behind in zip(rows, rows[1:], strict=False):
            row["dur"] = max(0, min(int(row["dur"] * factor), behind["ts"] - row["ts"]))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("seed", REAL_SEEDS)
def test_faults_in_real_traces(name, seed, tmp_path):
    rng = random.Random(f"{name} {seed}")
    data = gzip.decompress((DATA / f"{name}.pt.trace.json.gz").read_bytes())
    trace = trace_text.from_json(data)
    plants = rng.sample(PLANTS, rng.randint(1, len(PLANTS)))
    if rng.random() < 0.5:
        slow_down(trace, rng)
    for step in steps_of(trace):
        for plant in plants:
            at = step["ts"] + rng.randrange(1, max(2, step["dur"]))
            plant(trace, step, at, int(10 ** rng.uniform(-2, 2) * MS))
    assert broken(report_of(write(tmp_path, [trace]))) == [], [p.__name__ for p in plants]


# ---------------------------------------------------------------- the checks themselves


def change(path, value):
    def apply(doc):
        *way, last = path
        for key in way:
            doc = doc[key]
        doc[last] = value(doc[last]) if callable(value) else value

    return apply


TAMPERED = (
    (change(("findings", 0, "saving_ns_per_step", "low"), 10**15), "saving_ns_per_step from"),
    (change(("findings", 0, "saving_ns_per_step", "high"), 10**15), "in a step of"),
    (change(("findings", 0, "saving_in_trace_ns_per_step", "low"), -1), "from -1"),
    (change(("findings", 0, "share"), 1.5), "share 1.5"),
    (change(("findings", 0, "share"), float("nan")), "share is nan"),
    (change(("findings", 0, "confidence"), "none"), "confidence none"),
    (change(("findings", 0, "evidence"), []), "evidence is missing"),
    (change(("findings", 0, "order"), 2), "order"),
    (change(("findings", 0, "primary"), False), "primary is False"),
    (change(("findings", 1, "group"), "other"), "primary is False in other"),
    (change(("findings", 1, "group"), "other"), "saved in a step of"),
    (change(("plan", 0, "step_ns_after", "low"), -1), "leaves"),
    (change(("plan", 0, "step_ns_after", "high"), lambda ns: ns + 10), "makes"),
    (change(("plan",), []), "plan []"),
    (change(("findings", 1, "id"), "launch.bound"), "launch.bound: found 2 times"),
    (change(("checked", 0, "reason"), ""), "''"),
)


@pytest.mark.parametrize(("tamper", "words"), TAMPERED)
def test_a_broken_promise_is_noticed(tamper, words):
    doc = copy.deepcopy(sound())
    tamper(doc)
    assert any(words in text for text in broken(doc)), broken(doc)


def sound():
    doc = report_of([DATA / "A.cpu_fallback.good.pt.trace.json.gz"])
    assert [finding["id"] for finding in doc["findings"]] == ["launch.bound", "batch.too_small"]
    assert broken(doc) == []
    return doc


def test_reports_hold_real_numbers_only():
    """Neither NaN nor Infinity is in the text, which JSON does not know."""
    with pytest.raises(ValueError, match="NaN"):
        report_of([], text='{"a": NaN}')
    assert json.dumps(sound())
