"""Goal: `kscope tune` keeps what is faster, rejects what is wrong and says why, and refuses scripts
that it cannot tune. Method: small scripts whose best setting, and whose wrong ones, are planted."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
KSCOPE = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
SCHEMA = json.loads((ROOT / "docs" / "tune.schema.json").read_text())
TIMEOUT_S = 240

# Of a script: what shells take for other things.
ARGUMENTS = ["a b", "it's", "$HOME", "", "x" * 400]

# A knob that helps and may round, an exact one that changes results by less than rounding may; fp16
# overflows; an optimizer cannot be fused; and what is compiled is planted to be wrong. Backend
# eager, because compilers for C++ take their time.
FAULTY = """
    import time
    import torch
    from torch import nn
    from kinetoscope.tune.entry import entry

    compile_in_place = nn.Module.compile
    nn.Module.compile = lambda module, mode: compile_in_place(module, backend="eager")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 1)

        def forward(self, x):
            if torch.compiler.is_compiling():
                x = x * 1.25
            return self.second(self.first(x * 1e6) / 1e6)

    add_group = torch.optim.SGD.add_param_group

    def add_unfused(optimizer, group):
        if optimizer.defaults["fused"]:
            raise RuntimeError("nothing is fused here")
        add_group(optimizer, group)

    torch.optim.SGD.add_param_group = add_unfused
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    wait_ms, scale = entry("wait", 20, 4, exact=False), entry("scale", 1.0, 1.001)
    for _ in range(20000):
        time.sleep(wait_ms / 1e3)
        loss = model(torch.randn(8, 32)).square().mean() * scale
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

# No more than ROOM copies live at once, and one choice has no room at all. Two others are faster
# and round; together they round more than one may.
CROWDED = """
    import os
    import time
    from pathlib import Path
    import torch
    from kinetoscope.tune.entry import entry

    def lives(pid):
        return pid.name.isdigit() and Path("/proc", pid.name).exists()

    chosen = entry("first", 0, 1, exact=False) + entry("second", 0, 1, exact=False)
    big = entry("big", False, True)
    places = Path("places")
    places.mkdir(exist_ok=True)
    own = places / str(os.getpid())
    own.touch()
    if big or sum(map(lives, places.iterdir())) > ROOM:
        own.unlink()
        raise RuntimeError("CUDA out of memory")
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for _ in range(20000):
        time.sleep((14 - 6 * chosen) / 1e3)
        loss = model(torch.ones(4, 8)).square().mean() * (1 + 0.0015 * chosen)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

# Steps become longer, so that who has run on must start anew; and a child steps an optimizer, too,
# but speaks to nobody: it would be waiting for leave to go on.
GROWING = """
    import os
    import signal
    import time
    import torch
    from kinetoscope.tune.entry import entry

    print("begins", entry("nothing", 0, 1), flush=True)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for number in range(20000):
        time.sleep(0.01 if number < 40 else 0.04)
        loss = model(torch.ones(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number == 45:
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                for _ in range(200):
                    optimizer.step()
                raise SystemExit
            assert os.waitpid(child, 0)[1] == 0
"""

# Waits for a disk: workers wait at the same time.
STARVED = """
    import time
    import torch
    from torch.utils.data import DataLoader

    class Remote(torch.utils.data.Dataset):
        def __len__(self):
            return 100_000

        def __getitem__(self, index):
            time.sleep(0.004)
            return torch.full((8,), index / 1e5)

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Remote(), 8, shuffle=True)
    print("workers", loader.num_workers, flush=True)
    for number, batch in enumerate(loader):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number == STEPS:
            break
"""


def environment():
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KSCOPE_")}
    ours = {"KSCOPE_PYTHON": sys.executable, "KSCOPE_PYTHON_DIR": str(ROOT / "python")}
    return {**kept, **ours, "OMP_NUM_THREADS": "1"}


def write(folder, text):
    path = folder / "script.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def kscope(folder, *words):
    return subprocess.run(
        [KSCOPE, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(),
        timeout=TIMEOUT_S,
        check=False,
    )


def tune(folder, text, *words, arguments=()):
    script = write(folder, text)
    done = kscope(folder, "tune", "--json", "-o", folder / "out", *words, script, *arguments)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert json.loads((folder / "out" / "tune.json").read_text()) == document
    return document, done


def tries_of(document):
    return {entry["change"]: entry for entry in document["tries"]}


def processes_of(path):
    """Those that have this path among their words."""
    found = subprocess.run(["pgrep", "-f", path], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_wrong_changes_are_rejected_with_the_reason(tmp_path):
    document, done = tune(
        tmp_path,
        FAULTY,
        "--no-advice",
        "--max-seconds=150",
        "--what=entry,optimizer,precision=fp16,compile",
        arguments=ARGUMENTS,
    )
    tries = tries_of(document)
    assert document["deterministic"] and tries[None]["difference"] == 0
    assert document["setting"] == {"entry.wait": "1"}
    assert tries["entry.wait=1"]["fate"] == "kept"
    assert document["whole"]["fate"] == "kept" and document["whole"]["speedup"]["value"] > 2
    for change, reason in {
        "entry.scale=1": r"loss \d+ is [\d.e-]+ and was [\d.e-]+",
        "precision=fp16": r"loss \d+ is (nan|inf) and was",
        "compile=default": r"loss \d+ is [\d.e-]+ and was [\d.e-]+",
    }.items():
        assert tries[change]["fate"] == "wrong", tries[change]
        assert re.match(reason, tries[change]["reason"]), tries[change]["reason"]
        assert f"{change}: wrong: " in done.stderr
    assert tries["optimizer=fused"]["fate"] == "refused"
    assert "SGD(fused=True): nothing is fused here" in tries["optimizer=fused"]["reason"]
    assert "optimizer=fused: refused: optimizer SGD" in done.stderr
    script, conf = tmp_path / "script.py", tmp_path / "out" / "tuned.conf"
    (command,) = re.findall("^kscope: to run with it: (.*)$", done.stderr, re.MULTILINE)
    words = [*map(str, ["kscope", "run", "--tuned", conf, script]), *ARGUMENTS]
    assert shlex.split(command) == words
    assert not processes_of(str(tmp_path / "script.py"))


def test_steps_that_grow_are_compared_from_their_beginning(tmp_path):
    (tmp_path / "base.conf").write_text("threads=1\n")
    words = ["--tuned=base.conf", "--no-advice", "--max-seconds=120", "--what=entry"]
    document, _ = tune(tmp_path, GROWING, *words)
    assert tries_of(document)["entry.nothing=1"]["fate"] == "not_faster", document
    assert (tmp_path / "out" / "again.log").read_text() == "begins 0\n" * 2
    assert document["base"] == document["setting"] == {"threads": "1"}
    assert document["code"] == ["torch.set_num_threads(1)"]


@pytest.mark.parametrize(
    ("room", "words"),
    [(2, "no room for three .* no more than two at once"), (1, "no room for two .* one after")],
)
def test_few_processes_and_changes_that_are_wrong_together(tmp_path, room, words):
    script = CROWDED.replace("ROOM", str(room))
    document, done = tune(tmp_path, script, "--no-advice", "--max-seconds=60", "--what=entry")
    tries, whole = tries_of(document), document["whole"]
    assert tries[None]["rounds"] > 3 and document["deterministic"]
    assert re.match("it ended with status 1: .*out of memory", tries["entry.big=1"]["reason"])
    for change in ("entry.first=1", "entry.second=1"):
        assert tries[change]["fate"] == "kept", tries
    for entry in (tries[None], tries["entry.first=1"], whole):
        assert entry["before_bytes"] > 1e6 and entry["after_bytes"] > 1e6, entry
    assert len(re.findall(words, done.stderr)) == done.stderr.count("no room") == 1, done.stderr

    assert document["setting"] == {"entry.first": "1", "entry.second": "1"}
    assert whole["fate"] == "wrong" and whole["rounds"] > 3 and document["code"] == []
    assert re.match(r"loss \d+ is [\d.e-]+ and was", whole["reason"])
    lines = (tmp_path / "out" / "tuned.conf").read_text().splitlines()
    assert "# entry.first=1" in lines and all(line.startswith("#") for line in lines)
    assert "to run with it" not in done.stderr
    assert not processes_of(str(tmp_path / "script.py"))


def test_starved_loader_gets_workers_and_the_setting_is_applied(tmp_path):
    document, _ = tune(
        tmp_path, STARVED.replace("STEPS", "5000"), "--max-seconds=120", "--what=workers=4"
    )
    assert document["advice"] is None  # a window was recorded, and says so
    assert document["setting"] == {"workers": "4"} and document["whole"]["speedup"]["value"] > 1.5
    assert document["code"] == ["loader = DataLoader(..., num_workers=4)"]
    report = kscope(tmp_path, "report", "--json", tmp_path / "out")
    assert json.loads(report.stdout)["tuned"]["setting"] == document["setting"]
    assert "tuned" in kscope(tmp_path, "report", tmp_path / "out").stdout

    script = write(tmp_path, STARVED.replace("STEPS", "3"))
    conf = tmp_path / "out" / "tuned.conf"
    done = kscope(tmp_path, "run", "-o", tmp_path / "run", "--tuned", conf, script)
    assert "workers 4\n" in done.stdout


def test_same_again_is_no_difference_or_cannot_be_told(tmp_path):
    script = """
        import time
        import torch
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for _ in range(100000):
            time.sleep(0.005)
            loss = model(torch.ones(4, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    document, _ = tune(tmp_path, script, "--no-advice", "--max-seconds=24", "--what=none")
    assert document["setting"] == {}
    (again,) = document["tries"]
    assert again["change"] is None and again["fate"] == "not_faster"
    assert again["verdict"] in ("no_difference", "cannot_tell"), again


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("print(1)", "no Python process imported torch"),
        ("import torch", "0 steps were found"),
        ("import torch\nraise SystemExit('no data here')", "fails as it is, .*no data here"),
        (
            """
            import torch
            model = torch.nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(5):
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
            """,
            "ends after 5 steps",
        ),
    ],
    ids=["no torch", "no steps", "fails", "too short"],
)
def test_scripts_that_cannot_be_tuned(tmp_path, text, reason):
    script = write(tmp_path, text)
    done = kscope(tmp_path, "tune", "--no-advice", "-o", tmp_path / "out", script)
    assert done.returncode == 3, done.stderr
    assert re.search(reason, done.stderr), done.stderr


def test_table_of_what_cannot_be_tuned_is_the_program_s():
    source = (ROOT / "core" / "tune" / "not_tunable.c").read_text()
    page = (ROOT / "docs" / "tuning.md").read_text().partition("## What cannot be tuned")[2]
    page = page.partition("## Files")[0]
    rows = re.findall(r'\{"([a-z_.0-9]+)", "([^"]+)"\}', source)
    assert len(rows) > 20
    assert re.findall(r"^\| `([a-z_]+\.[a-z_0-9]+)` \| (.+) \|$", page, re.MULTILINE) == rows


UNLIKE = """
    import pathlib, sys, time
    import torch
    from kinetoscope.tune.entry import entry

    runs = pathlib.Path(sys.argv[1])
    number = len(list(runs.iterdir()))
    (runs / str(number)).touch()
    took = [0.060, 0.030, 0.020][min(number, 2)]  # the third is that of the change
    wait = entry("wait", took, took)
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=1e-3)
    for _ in range(4000):
        time.sleep(wait)
        optimizer.zero_grad()
        parameter.square().sum().backward()
        optimizer.step()
"""


def test_a_gain_below_the_difference_of_runs_alike_is_not_kept(tmp_path):
    """Each process has a speed of its own, whatever the setting: the second is twice as fast."""
    runs = tmp_path / "runs"
    runs.mkdir()
    document, done = tune(
        tmp_path, UNLIKE, "--no-advice", "--what=entry", "--max-seconds=60", arguments=[runs]
    )
    tries = tries_of(document)
    assert re.match(r"two runs alike differ by \d+ %", tries[None]["reason"])
    change = tries["entry.wait=1"]
    assert change["verdict"] == "faster" and change["fate"] == "not_faster"
    assert "two runs alike" in change["reason"] and document["setting"] == {}


def test_unknown_words_are_named(tmp_path):
    done = kscope(tmp_path, "tune", "--what=dataloader,speed", "script.py")
    assert done.returncode == 2
    assert '"speed"' in done.stderr
    (tmp_path / "bad.conf").write_text("# a setting\nworkers=4\nspeed=high\n")
    done = kscope(tmp_path, "run", "--tuned", "bad.conf", "script.py")
    assert done.returncode == 3 and "line=3" in done.stderr


def test_values_that_there_are_not_are_refused(tmp_path):
    done = kscope(tmp_path, "tune", "--what=cudnn=hello", "script.py")
    assert done.returncode == 2 and "allowed: benchmark, fixed" in done.stderr
    (tmp_path / "bad.conf").write_text("workers=4  # as before\nworkers=four\n")
    for words in (["run"], ["tune", "--no-advice"]):
        done = kscope(tmp_path, *words, "--tuned", "bad.conf", "script.py")
        assert done.returncode == 3, done.stderr
        assert "line=2" in done.stderr and "allowed: 0, a number from 1 on" in done.stderr


def test_a_setting_to_begin_with_that_cannot_be_applied_is_told(tmp_path):
    (tmp_path / "given.conf").write_text("precision=bf16\n")
    own = "model = torch.nn.Linear(8, 1)\n    forward = model.forward\n"
    own += "    model.forward = lambda x: forward(x)"
    script = STARVED.replace("STEPS", "5000").replace("model = torch.nn.Linear(8, 1)", own)
    words = ["tune", "--no-advice", "--tuned", "given.conf", write(tmp_path, script)]
    done = kscope(tmp_path, *words)
    assert done.returncode == 3, done.stderr
    assert "the setting that you gave cannot be applied, precision" in done.stderr


@pytest.mark.parametrize("line", ["the script as it is", "the same again: "])
def test_interrupt_ends_all_processes(tmp_path, line):
    """Once something is known, it is written."""
    script = write(tmp_path, STARVED.replace("STEPS", "50000"))
    words = [KSCOPE, "tune", "--no-advice", "-o", str(tmp_path / "out"), script]
    process = subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    )
    assert any(line in said for said in process.stderr)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == -signal.SIGINT
    assert not processes_of(script)
    path = tmp_path / "out" / "tune.json"
    assert path.exists() == (line == "the same again: ")
    if path.exists():
        document = json.loads(path.read_text())
        jsonschema.Draft202012Validator(SCHEMA).validate(document)
        assert document["ended"] == "interrupted" and len(document["tries"]) == 1
        assert (tmp_path / "out" / "tuned.conf").exists()
