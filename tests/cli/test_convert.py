"""Goal: handing on a trace changes nothing but what was asked for. Method: real traces, hostile
ones and ones with names to hide are converted, and read by Python's json and by kscope."""

import gzip
import json
import signal
import subprocess
import time

import peak_memory
import pytest
from cli_program import PROGRAM, ROOT, environment

DATA = ROOT / "tests" / "data"
GPU = DATA / "A.host_sync.bad.pt.trace.json.gz"
RANKS = [DATA / f"D.straggler.bad.rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
HOSTILE = ROOT / "tests" / "hostile"
# The reader guesses more of a document whose first bytes are gone.
GIVEN_UP = {"missing_opening.json"}


def load(path):
    opener = gzip.open if path.read_bytes()[:2] == b"\x1f\x8b" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def good(run):
    assert run.returncode == 0, run.stderr
    return run.stdout


def convert(kscope, *words):
    run = kscope("convert", *words)
    assert run.stderr == ""
    return json.loads(good(run))


def report(kscope, *words):
    return json.loads(good(kscope("report", "--json", *words)))


def same_report(before, after, *but):
    """The document but for what names the file."""
    left_out = {"inputs", "verify", *but}

    def clean(value):
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items() if key not in left_out}
        return [clean(item) for item in value] if isinstance(value, list) else value

    assert clean(before) == clean(after)


# ---------------------------------------------------------------- nothing changes


@pytest.mark.parametrize("path", [GPU, RANKS[1], DATA / "A.dataloader.bad.pt.trace.json.gz"])
def test_text_is_handed_on_whole(kscope, path):
    """Values, numbers to the digit, and the order of keys."""
    whole = dict(parse_float=str, object_pairs_hook=list)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        before = json.load(file, **whole)
    assert json.loads(good(kscope("convert", path)), **whole) == before
    assert json.loads(good(kscope("export", "--to", "chrome", path)), **whole) == before


def test_unknown_keys_stay(kscope, tmp_path):
    text = '{"z":1,"traceEvents":[{"x":{"y":[1e3,null]},"ph":"X","ts":1.50,"dur":2}],"a":"b"}'
    path = tmp_path / "unknown.json"
    path.write_text(text)
    out = good(kscope("convert", path))
    assert '{"x":{"y":[1e3,null]},"ph":"X","ts":1.50,"dur":2}' in out
    assert list(json.loads(out)) == ["z", "traceEvents", "a"]


def test_compressed_when_the_name_says_so(kscope, tmp_path):
    target = tmp_path / "out.json.gz"
    for words in (["convert"], ["export", "--to", "chrome"], ["export", "--to", "csv"]):
        assert good(kscope(*words, "-o", target, GPU)) == ""
        first = target.read_bytes()
        assert first[:2] == b"\x1f\x8b"
        good(kscope(*words, "-o", target, GPU))
        assert target.read_bytes() == first, "no time in it"
        plain = gzip.decompress(first).decode().replace("\r\n", "\n")
        assert plain == good(kscope(*words, GPU))


def test_standard_input(kscope):
    with subprocess.Popen(["gzip", "-dc", GPU], stdout=subprocess.PIPE) as plain:
        run = kscope("convert", "-", stdin=plain.stdout)
    assert good(run) == good(kscope("convert", GPU))
    run = kscope("export", "--to", "chrome", "-", input="[]")
    assert (run.returncode, run.stdout) == (2, "")
    assert "cannot be read twice" in run.stderr


# ---------------------------------------------------------------- hostile files


@pytest.mark.parametrize("name", sorted(path.name for path in HOSTILE.glob("*.json")))
def test_hostile_files_come_out_sound(kscope, tmp_path, name):
    path = HOSTILE / name
    works = kscope("report", path).returncode
    run = kscope("convert", path)
    assert run.returncode == (3 if name in GIVEN_UP else works)
    if run.returncode != 0:
        assert run.stdout == ""
        return
    json.loads(run.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    out = tmp_path / "out.json"
    out.write_text(run.stdout)
    for table in ("operators", "kernels"):
        words = ("export", "--to", "csv", "--table", table)
        assert good(kscope(*words, out)) == good(kscope(*words, path))
    for words in (["--anonymize"], ["--drop-args"], ["--drop", "cpu_op"]):
        changed = kscope("convert", *words, path)
        assert changed.returncode in ((3,) if name.startswith("nested") else (0,))
        if changed.returncode == 0:
            json.loads(changed.stdout)


def test_damage_is_said_or_refused(kscope, damaged):
    run = kscope("convert", damaged)
    assert (run.returncode, run.stderr) == (0, "kscope: repaired 1 places of the text\n")
    run = kscope("convert", "--strict", damaged)
    assert (run.returncode, run.stdout.strip()) in ((3, ""), (3, "{"))
    assert "at byte" in run.stderr


def test_cut_file(kscope, tmp_path):
    path = tmp_path / "cut.json"
    path.write_bytes(gzip.decompress(GPU.read_bytes())[:500_000])
    run = kscope("convert", path)
    assert run.returncode == 0
    assert "ends early" in run.stderr
    assert len(json.loads(run.stdout)["traceEvents"]) > 500


# ---------------------------------------------------------------- filters


def test_steps(kscope, tmp_path):
    numbers = [step["number"] for step in report(kscope, GPU)["steps"]]
    first, last = numbers[1], numbers[2]
    out = tmp_path / "steps.json"
    good(kscope("export", "--to", "chrome", "--steps", f"{first}-{last}", "-o", out, GPU))
    assert len(load(out)["traceEvents"]) < 0.6 * len(load(GPU)["traceEvents"])
    before = report(kscope, "--step", f"{first}..{last}", GPU)
    after = report(kscope, out)
    assert after["kernels"] == before["kernels"]
    assert after["copies"] == before["copies"]
    same = ("number", "host_ns", "dur_ns", "breakdown_ns")
    # The first true step may begin later: the end of the one before it is gone.
    assert [step["number"] for step in after["steps"]] == [first, last]
    assert [{key: step[key] for key in same} for step in after["steps"]][1:] == [
        {key: step[key] for key in same} for step in before["steps"]
    ][1:]
    assert {row["name"]: (row["calls"], row["cpu_ns"], row["self_device_ns"])
            for row in after["operators"]} == {
        row["name"]: (row["calls"], row["cpu_ns"], row["self_device_ns"])
        for row in before["operators"]
    }  # fmt: skip


def test_time(kscope):
    events = [event for event in load(GPU)["traceEvents"] if event["ph"] == "X"]
    start = min(event["ts"] for event in events)
    document = json.loads(good(kscope("export", "--to", "chrome", "--time", "20:30.5", GPU)))
    kept = [event for event in document["traceEvents"] if event["ph"] == "X"]

    def overlaps(event, slack):
        begin = (event["ts"] - start) / 1e3
        return begin < 30.5 - slack and begin + event["dur"] / 1e3 > 20 + slack

    assert 0 < len(kept) < len(events)
    assert all(overlaps(event, -1e-5) for event in kept)  # doubles are a little off
    assert len(kept) >= sum(overlaps(event, 1e-5) for event in events)
    for words in ("0:", ":1000000"):
        whole = json.loads(good(kscope("export", "--to", "chrome", "--time", words, GPU)))
        assert len(whole["traceEvents"]) == len(load(GPU)["traceEvents"])


def test_categories(kscope):
    document = json.loads(
        good(kscope("export", "--to", "chrome", "--category", "kernel,cpu_op", GPU))
    )
    wanted = [
        event
        for event in load(GPU)["traceEvents"]
        if event["ph"] == "M" or event.get("cat") in ("kernel", "cpu_op")
    ]
    assert document["traceEvents"] == wanted
    rest = convert(kscope, "--drop", "kernel,cpu_op", GPU)["traceEvents"]
    assert [event for event in load(GPU)["traceEvents"] if event.get("cat") not in
            ("kernel", "cpu_op")] == rest  # fmt: skip


def test_ranks(kscope):
    run = kscope("export", "--to", "chrome", *RANKS)
    assert run.returncode == 2
    assert "2 files" in run.stderr
    text = good(kscope("export", "--to", "chrome", "--rank", 1, *RANKS))
    assert json.loads(text) == load(RANKS[1])


@pytest.mark.parametrize("words", ["20", "30:20", ":", "a:b", "1:-2", "1::2", "9" * 20 + ":"])
def test_times_that_make_no_sense(kscope, words):
    run = kscope("export", "--to", "chrome", "--time", words, GPU)
    assert run.returncode == 2
    assert "FROM:TO" in run.stderr


# ---------------------------------------------------------------- smaller


def test_without_python_frames_and_arguments(kscope, tmp_path):
    path = DATA / "A.python_bound.bad.pt.trace.json.gz"
    out = tmp_path / "small.json"
    good(kscope("convert", "--drop", "python_function", "--drop-args", "-o", out, path))
    document = load(out)
    assert not any(event.get("cat") == "python_function" for event in document["traceEvents"])
    arguments = {key for event in document["traceEvents"] for key in event.get("args", {})}
    assert not arguments & {"Input Dims", "Input type", "Concrete Inputs", "grid", "block"}
    assert arguments >= {"External id", "correlation", "stream", "device"}
    before, after = report(kscope, path), report(kscope, out)
    for key in ("kernels", "devices", "streams", "copies", "links"):
        assert after[key] == before[key]
    for row, truth in zip(after["operators"], before["operators"], strict=True):
        assert {key: value for key, value in row.items() if key != "flops"} | {
            "self_exclusive_ns": 0
        } == {key: value for key, value in truth.items() if key != "flops"} | {
            "self_exclusive_ns": 0
        }


# ---------------------------------------------------------------- anonymous

SECRETS = {
    "schemaVersion": 1,
    "traceName": "/data/alice/secret/trace.json",
    "host_name": "alice-laptop",
    "owner": {"mail": "alice@example.org"},
    "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": ["alice_pg"]},
    "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "alice_train"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "thread 7"}},
        {"ph": "X", "cat": "python_function", "name": "/data/alice/secret/train.py(12): alice_fn",
         "pid": 1, "tid": 1, "ts": 0, "dur": 100,
         "args": {"Python id": 1, "CallFrom": "/data/alice/secret/run.py:7", "alice": "alice"}},
        {"ph": "X", "cat": "python_function", "name": "/data/alice/secret/train.py(40): forward",
         "pid": 1, "tid": 1, "ts": 1, "dur": 90, "args": {"Python id": 2, "Python parent id": 1}},
        {"ph": "X", "cat": "python_function", "name": "nn.Module: AliceNet_3", "pid": 1, "tid": 1,
         "ts": 2, "dur": 80, "args": {"Python id": 3}},
        {"ph": "X", "cat": "python_function", "name": "nn.Module: Linear_4", "pid": 1, "tid": 1,
         "ts": 3, "dur": 70, "args": {"Python id": 4}},
        {"ph": "X", "cat": "python_function", "pid": 1, "tid": 1, "ts": 4, "dur": 60,
         "name": "/data/alice/venv/lib/python3.11/site-packages/torch/nn/functional.py(9): linear"},
        {"ph": "X", "cat": "python_function", "pid": 1, "tid": 1, "ts": 5, "dur": 50,
         "name": "<built-in method alice of AliceThing object at 0x7f>"},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 6, "dur": 40,
         "args": {"External id": 5, "Input Dims": [[2, 3], [3, 4]],
                  "Concrete Inputs": ["", "/data/alice", "1.5"], "alice_arg": 7}},
        {"ph": "X", "cat": "cpu_op", "name": "alice::secret_op", "pid": 1, "tid": 1, "ts": 50,
         "dur": 5, "alice": 1},
        {"ph": "X", "cat": "cpu_op", "name": "AliceFnBackward", "pid": 1, "tid": 1, "ts": 60,
         "dur": 5},
        {"ph": "X", "cat": "user_annotation", "name": "alice's epoch", "pid": 1, "tid": 1,
         "ts": 70, "dur": 5},
        {"ph": "X", "cat": "user_annotation", "name": "alice's epoch", "pid": 1, "tid": 1,
         "ts": 80, "dur": 5},
        {"ph": "X", "cat": "kernel", "name": "alice_kernel<float>", "pid": 0, "tid": 7, "ts": 90,
         "dur": 5, "args": {"device": 0, "stream": 7, "Process Group Name": "alice_pg"}},
        {"ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x64_tn", "pid": 0, "tid": 7,
         "ts": 96, "dur": 2, "args": {"device": 0, "stream": 7}},
        {"ph": "X", "cat": "kernel", "name": "alice_gemm_tensorop", "pid": 0, "tid": 7, "ts": 98,
         "dur": 1, "args": {"device": 0, "stream": 7}},
        {"ph": "C", "name": "alice_counter", "pid": 1, "ts": 97, "args": {"alice_series": 3}},
        {"ph": "i", "cat": "alice_cat", "name": "alice_mark", "pid": "alice_pid", "tid": 1,
         "ts": 98},
    ],
}  # fmt: skip


def test_anonymous(kscope, tmp_path):
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps(SECRETS))
    run = kscope("convert", "--anonymize", path)
    text = good(run)
    assert "in which names could hide" in run.stderr
    assert "alice" not in text.lower()
    assert "secret" not in text
    assert "/data" not in text
    events = json.loads(text)["traceEvents"]
    assert [event["name"] for event in events][2:13] == [
        "file_1.py(12): function_1",
        "file_1.py(40): forward",
        "nn.Module: Module_1_3",
        "nn.Module: Linear_4",
        "torch/nn/functional.py(9): linear",
        "function_2",
        "aten::mm",
        "operator_1",
        "operator_2",
        "annotation_1",
        "annotation_1",
    ]
    assert events[2]["args"] == {"Python id": 1, "CallFrom": "file_2.py:7"}
    assert events[8]["args"] == {
        "External id": 5, "Input Dims": [[2, 3], [3, 4]], "Concrete Inputs": ["", "", "1.5"],
    }  # fmt: skip
    assert json.loads(text)["distributedInfo"]["rank"] == 3
    out = tmp_path / "public.json"
    out.write_text(text)
    before, after = report(kscope, path), report(kscope, out)
    for key in ("calls", "cpu_ns", "self_cpu_ns", "self_exclusive_ns"):
        assert [row[key] for row in after["operators"]] == [row[key] for row in before["operators"]]
    for key in ("total_ns", "calls", "tensor_core"):
        assert [row[key] for row in after["kernels"]] == [row[key] for row in before["kernels"]]


@pytest.mark.parametrize("path", [GPU, DATA / "A.python_bound.bad.pt.trace.json.gz"])
def test_anonymous_traces_say_the_same(kscope, tmp_path, path):
    out = tmp_path / "public.json.gz"
    good(kscope("convert", "--anonymize", "-o", out, path))
    before, after = report(kscope, path), report(kscope, out)
    assert after["verdict"] == before["verdict"]
    assert [finding["id"] for finding in after["findings"]] == [
        finding["id"] for finding in before["findings"]
    ]
    assert after["devices"] == before["devices"]
    assert after["steps"] == before["steps"]


# ---------------------------------------------------------------- files


def test_an_input_is_not_overwritten(kscope, small):
    before = small.read_bytes()
    run = kscope("convert", "-o", small, small)
    assert run.returncode == 2
    assert "it is an input" in run.stderr
    assert small.read_bytes() == before


def test_a_trace_of_the_folder_is_not_overwritten(kscope, tmp_path):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(GPU.read_bytes())
    run = kscope("export", "--to", "chrome", "-o", path, tmp_path)
    assert run.returncode == 2
    assert "may be an input" in run.stderr
    assert path.read_bytes() == GPU.read_bytes()
    target = tmp_path / "new.json"
    good(kscope("export", "--to", "chrome", "-o", target, tmp_path))
    assert load(target) == load(GPU)


def test_a_broken_input_leaves_the_old_file(kscope, tmp_path):
    target = tmp_path / "old.json"
    target.write_text("old")
    bad = tmp_path / "bad.json"
    bad.write_text("no trace")
    assert kscope("convert", "-o", target, bad).returncode == 3
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.json", "old.json"]


def test_a_full_disk_is_said(kscope):
    run = kscope("convert", "-o", "/dev/full", GPU)
    assert run.returncode == 125
    assert "No space left" in run.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_conversion_leaves_nothing(tmp_path, number):
    """The input never ends, so that the file is there and half-written when the signal comes."""
    target = tmp_path / "out"
    target.mkdir()
    words = [PROGRAM, "convert", "-o", target / "x.json", "-"]
    event = b'{"ph": "X", "name": "x", "ts": 1, "dur": 1},\n'
    with subprocess.Popen(words, env=environment(), stdin=subprocess.PIPE) as process:
        process.stdin.write(b'{"traceEvents": [\n' + event * 100_000)
        process.stdin.flush()
        for _ in range(200):
            if any(path.stat().st_size > 0 for path in target.iterdir()):
                break
            time.sleep(0.05)
        assert len(list(target.iterdir())) == 1
        process.send_signal(number)
        assert process.wait(timeout=20) == -number
        process.stdin.close()
    assert list(target.iterdir()) == []


def test_memory_does_not_grow_with_the_file(tmp_path):
    """200 MB of text need what 20 MB need, but for the window."""
    event = (
        b'{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 1},'
    )
    file = tmp_path / "peak"
    words = peak_memory.command([PROGRAM, "convert", "--anonymize", "-"], file)
    peaks = []
    for count in (200_000, 2_000_000):
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment()
        ) as process:
            process.stdin.write(b"[")
            for _ in range(count // 1000):
                process.stdin.write(event * 1000)
            process.stdin.close()
            assert process.wait(timeout=120) == 0
        peaks.append(peak_memory.peak_bytes(file))
    assert peaks[1] < peaks[0] + (2 << 20)
