"""Goal: folded stacks and speedscope's JSON of a recording hold its call paths and samples.

Method: recordings of random trees of calls and random samples, written byte by byte; what is
exported is read by readers that know the formats alone, and compared stack by stack with what was
written. Hostile names, deep stacks, and choices of time and category."""

import json
import random

import pytest
from test_recordings import kscope, report
from write_recording import START_UNIX_NS, Recording

NODES = 3
FUNCTIONS = [(f"f{i}", f"m{i % 2}.py", 1 + i) for i in range(6)] + [("<built-in len>", "~", 0)]


def frame(function):
    name, file, line = function
    return f"{file}({line}): {name}" if line else name


def read_folded(text):
    stacks = {}
    for line in text.removesuffix("\n").split("\n"):
        path, value = line.rsplit(" ", 1)
        assert path not in stacks, "a stack has one line"
        stacks[tuple(path.split(";"))] = int(value)
    return stacks


def read_sampled(document, begin):
    """What speedscope's schema asks of sampled profiles; weights by stack, for each profile."""
    frames = document["shared"]["frames"]
    for entry in frames:
        assert set(entry) <= {"name", "file", "line"} and isinstance(entry["name"], str)
    profiles = {}
    for profile in document["profiles"]:
        if profile["type"] != "sampled" or not profile["name"].startswith(begin):
            continue
        assert set(profile) == {
            *("type", "name", "unit", "startValue", "endValue", "samples", "weights")
        }
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["startValue"] == 0 and profile["endValue"] == sum(profile["weights"])
        stacks = {}
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            key = tuple(
                (frames[i]["name"], frames[i].get("file"), frames[i].get("line", 0)) for i in stack
            )
            stacks[key] = stacks.get(key, 0) + weight
        assert profile["name"] not in profiles
        profiles[profile["name"]] = profile["unit"], stacks
    return profiles


def add(sums, key, value):
    if value:
        sums[key] = sums.get(key, 0) + value


def random_recording(seed):
    """A recording, and by thread what it holds: own time of each path, samples of each stack."""
    rng = random.Random(seed)
    r = Recording(pid=9)
    calls, samples = {41: {}, 42: {}}, {41: {}, 42: {}}
    for tid in calls:
        lane = r.thread(tid, f"thread {tid}")
        lane.kind = NODES
        paths = []
        for _ in range(60):
            above, stack = rng.choice([(None, ()), *paths])
            function = rng.choice(FUNCTIONS)
            total = rng.randrange(0, 50)
            child = rng.randrange(0, total + 1)
            parent = () if above is None else (above,)
            node = r.node(lane, r.code(*function), *parent, calls=2, total=total, child=child)
            paths.append((node, (*stack, function)))
            add(calls[tid], (*stack, function), total - child)
    for i in range(80):
        tid = rng.choice([41, 42])
        stack = tuple(rng.choice(FUNCTIONS) for _ in range(rng.randrange(1, 7)))
        weight = rng.randrange(1, 4)
        r.sample(1000 * i, tid, r.stack(*((*f, f[2]) for f in stack)), weight)
        add(samples[tid], stack, weight)
    r.clock(0, 0, START_UNIX_NS)
    r.clock(1_000_000, 1_000_000, START_UNIX_NS + 1_000_000)
    return r, calls, samples


def folded(threads):
    sums = {}
    for stacks in threads.values():
        for stack, value in stacks.items():
            add(sums, tuple(map(frame, stack)), value)
    return sums


@pytest.mark.parametrize("seed", range(5))
def test_random_recordings(tmp_path, seed):
    r, calls, samples = random_recording(seed)
    path = tmp_path / "r.ksrec"
    r.write(path)
    export = ("export", "--to", "folded", path)
    assert read_folded(kscope(*export, "--weight", "functions")) == folded(calls)
    assert read_folded(kscope(*export)) == folded(calls), "it has no spans"
    assert read_folded(kscope(*export, "--weight", "samples")) == folded(samples)
    document = json.loads(kscope("export", "--to", "speedscope", path))
    for begin, unit, want in (("calls", "nanoseconds", calls), ("samples", "none", samples)):
        assert read_sampled(document, begin) == {
            f"{begin} of pid 9, thread {tid}: thread {tid}": (unit, stacks)
            for tid, stacks in want.items()
        }
    own = {}
    for stack, value in folded(calls).items():
        add(own, stack[-1], value)
    rows = {frame((row["name"], row["file"], row["line"])): row["self_ns"]
            for row in report(path)["functions"]}  # fmt: skip
    assert {name: value for name, value in rows.items() if value} == own, "the report says so, too"


def test_choices(tmp_path):
    """A part of the time has the samples of that time, and no call paths: they have no time."""
    r, _, samples = random_recording(7)
    path = tmp_path / "r.ksrec"
    r.write(path)
    all_of_it = sum(folded(samples).values())
    half = read_folded(
        kscope("export", "--to", "folded", "--weight", "samples", "--time", "0:0.04", path)
    )
    assert 0 < sum(half.values()) < all_of_it
    for words in (["--time", "0:0.04"], ["--category", "cpu_op"]):
        export = ("export", *words, path)
        assert kscope(*export, "--to", "folded", "--weight", "functions") == ""
        document = json.loads(kscope(*export, "--to", "speedscope"))
        assert read_sampled(document, "calls") == {}
    assert read_sampled(document, "samples")["samples of pid 9, thread 41: thread 41"][1] == {}


def test_hostile_names_and_depths(tmp_path):
    r = Recording(pid=9)
    deep = [(f"a;b\n\x01{i}", "d;.py", 1, 1) for i in range(6000)]
    r.sample(5, 41, r.stack(*deep))
    lane = r.thread(41)
    lane.kind = NODES
    code = r.code("x\ty\u2028;", "", 0)
    above = ()
    for _ in range(5000):
        above = (r.node(lane, code, *above, calls=1, total=1),)
    path = tmp_path / "r.ksrec"
    r.write(path)
    (stack,) = read_folded(kscope("export", "--to", "folded", "--weight", "samples", path))
    assert len(stack) == 4096 and stack[0] == "d:.py(1): a:b  0"
    stacks = read_folded(kscope("export", "--to", "folded", path))
    assert max(map(len, stacks)) == 4096 and sum(stacks.values()) == 5000
    document = json.loads(kscope("export", "--to", "speedscope", path))
    assert {len(stack) for p in document["profiles"] for stack in p["samples"]} >= {1, 4096}
