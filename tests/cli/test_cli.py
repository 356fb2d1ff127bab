"""Goal: the command line keeps its promises: exit status, streams, JSON, files. Method: runs the
program as a user would; each rule of docs/cli.md has a test."""

import json
import os
import pty
import re
import select
import signal
import subprocess

import pytest
from cli_program import PROGRAM, ROOT, environment

COMMANDS = "report view explain query export convert info doctor completion help version"
COMMANDS = [*COMMANDS.split(), "run"]


def one_document(run):
    document = json.loads(run.stdout)
    assert isinstance(document, dict)
    return document


# ---------------------------------------------------------------- exit status and streams


def test_info_shows_files_of_several_runs(kscope, tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text('[{"ph": "X", "name": "k", "ts": 1, "dur": 1}]')
    run = kscope("info", tmp_path / "a.json", tmp_path / "b.json")
    assert run.returncode == 0
    assert run.stdout.count("kineto-json") == 2


def test_a_step_range_without_steps_is_refused(kscope, small):
    run = kscope("report", "--step", "99..100", small)
    assert run.returncode == 2
    assert "99 to 100" in run.stderr


def test_report_is_on_stdout_and_nothing_on_stderr(kscope, small):
    run = kscope("report", small)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("The step takes 100 us; ")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "Usage: kscope COMMAND"),
        (["reprot"], 2, "did you mean report?"),
        (["qqqqqq"], 2, "Cannot find command qqqqqq"),
        (["report"], 2, "without PATH"),
        (["report", "--tabel", "x"], 2, "did you mean --table?"),
        (["report", "--table", "kernel", "x"], 2, "must be one of operators|kernels"),
        (["report", "--limit", "many", "x"], 2, "number from 1"),
        (["report", "--limit", "0", "x"], 2, "number from 1"),
        (["report", "--limit", "3", "--all-rows", "x"], 2, "--all-rows"),
        (["report", "--step", "7..3", "x"], 2, "N..M"),
        (["report", "--step", "..", "x"], 2, "N..M"),
        (["report", "--fail-on", "200%", "x"], 2, "0% to 100%"),
        (["report", "--fail-on", "5", "x"], 2, "0% to 100%"),
        (["report", "--memory", "lots", "x"], 2, "512M"),
        (["report", "--color=sometimes", "x"], 2, "auto|always|never"),
        (["report", "--json=yes", "x"], 2, "Cannot give a value"),
        (["report", "x", "--limit"], 2, "without N"),
        (["report", "-z", "x"], 2, "Cannot find option -z"),
        (["report", "no-such-file"], 3, "no-such-file: Cannot open"),
        (["info", "no-such-file"], 3, "no-such-file: Cannot open"),
        (["help", "reprot"], 2, "did you mean report?"),
        (["completion", "tcsh"], 2, "bash|zsh|fish"),
        (["completion"], 2, "without SHELL"),
        (["version", "extra"], 2, "Cannot use the word extra"),
    ],
)
def test_mistakes_are_said_on_stderr(kscope, words, status, message):
    run = kscope(*words)
    assert run.returncode == status
    assert run.stdout == ""
    assert message in run.stderr


def test_one_line_a_message(kscope):
    run = kscope("report", "no-such\n\x1b[31mfile")
    assert run.returncode == 3
    assert run.stderr.count("\n") == 1
    assert "\x1b" not in run.stderr


def test_not_a_trace(kscope, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are notes\n")
    run = kscope("report", path)
    assert run.returncode == 3
    assert run.stderr.startswith(f"kscope: {path}: Cannot ")


def test_strict_names_the_byte(kscope, damaged):
    offset = damaged.read_text().index("\t")
    run = kscope("report", "--strict", damaged)
    assert run.returncode == 3
    assert run.stderr.startswith(f"kscope: {damaged}: Cannot ")
    assert f"(at byte {offset})" in run.stderr
    assert kscope("report", damaged).returncode == 0


def test_no_events(kscope, tmp_path):
    path = tmp_path / "empty.json"
    path.write_text('{"traceEvents": []}')
    run = kscope("report", path)
    assert run.returncode == 0
    assert "no events" in run.stdout


def test_fail_on_a_finding_that_is_large_enough(kscope):
    """The loader costs 54 % to 73 % of a step of this trace."""
    starved = ROOT / "tests" / "data" / "A.dataloader.bad.pt.trace.json.gz"
    assert kscope("report", "--fail-on", "10%", starved).returncode == 1
    assert kscope("report", "--fail-on", "0.1", "--json", starved).returncode == 1
    assert kscope("report", "--fail-on", "99%", starved).returncode == 0


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("A.dataloader.bad", {"low", "medium", "high"}),
        ("A.pageable.bad", {"low", "medium"}),
        ("A.healthy.good", set()),
    ],
)
def test_fail_on_a_weight(kscope, name, weights):
    trace = ROOT / "tests" / "data" / f"{name}.pt.trace.json.gz"
    run = {word: kscope("report", "--fail-on", word, trace) for word in ("low", "medium", "high")}
    assert {word for word, done in run.items() if done.returncode == 1} == weights


def test_fail_on(kscope, small):
    assert kscope("report", "--fail-on", "10%", small).returncode == 0
    assert kscope("report", "--fail-on", "0.1", "--json", small).returncode == 0


# ---------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (["report", "--json", "no-such-file"], "io", 3),
        (["report", "no-such-file", "--json"], "io", 3),
        (["info", "--json", "no-such-file"], "io", 3),
        (["report", "--json", "--tabel", "x"], "usage", 2),
        (["report", "--json"], "usage", 2),
        (["reprot", "--json"], "usage", 2),
        (["report", "--json", "--table", "steps", "x"], "usage", 2),
    ],
)
def test_json_on_failure(kscope, words, code, status):
    run = kscope(*words)
    document = one_document(run)
    assert document["schema"] == "kinetoscope.error/1"
    assert set(document["error"]) == {"code", "message", "where", "offset"}
    assert document["error"]["code"] == code
    assert run.returncode == status
    assert run.stderr != ""


def test_json_failure_names_file_and_byte(kscope, damaged):
    run = kscope("report", "--json", "--strict", damaged)
    error = one_document(run)["error"]
    assert error["where"] == str(damaged)
    assert error["offset"] == damaged.read_text().index("\t")
    assert error["message"].startswith("Cannot ")


def test_json_behind_double_dash_is_a_path(kscope):
    run = kscope("report", "--", "--json")
    assert (run.returncode, run.stdout) == (3, "")


def test_json_is_the_same_twice(kscope, small):
    assert kscope("report", "--json", small).stdout == kscope("report", "--json", small).stdout


def test_json_of_other_locale(kscope, small):
    plain = kscope("report", "--json", small).stdout
    assert kscope("report", "--json", small, env={"LC_ALL": "de_DE.UTF-8"}).stdout == plain


@pytest.mark.parametrize("sort", ["self_cpu_time_total", "cpu_time_total", "count", "name"])
def test_sort_names_of_torch(kscope, small, sort):
    run = kscope("report", "--json", "--sort", sort, small)
    assert run.returncode == 0
    assert kscope("report", "--table", "operators", "--sort", sort, small).returncode == 0


def test_unknown_sort_key_lists_all(kscope, small):
    run = kscope("report", "--sort", "cpu_tim", small)
    assert run.returncode == 2
    assert "did you mean cpu_time?" in run.stderr
    for key in ("self_cpu_time_total", "self_cuda_time_total", "flops", "self_exclusive_ns"):
        assert key in run.stderr


def test_limit_says_what_it_cut(kscope, small):
    whole = one_document(kscope("report", "--json", small))
    cut = one_document(kscope("report", "--json", "--limit", "1", small))
    assert "truncated" not in whole
    assert len(cut["operators"]) == 1
    assert cut["truncated"]["operators"] == len(whole["operators"]) == 3
    everything = one_document(kscope("report", "--json", "--all-rows", small))
    assert everything == whole


def test_version(kscope):
    line = kscope("--version").stdout
    assert re.fullmatch(r"kscope \d+\.\d+\.\d+\n", line)
    assert kscope("version").stdout == line
    for words in (("version", "--json"), ("--version", "--json")):
        document = one_document(kscope(*words))
        assert document["schema"] == "kinetoscope.version/1"
        assert document["version"] == line.split()[1]
        assert set(document) >= {"compiler", "build", "libraries"}


def test_doctor(kscope):
    text = kscope("doctor")
    assert text.returncode == 0
    document = one_document(kscope("doctor", "--json"))
    assert document["schema"] == "kinetoscope.doctor/1"
    for check in document["checks"]:
        assert check["state"] in ("ok", "limited", "missing")
        assert check["id"] in text.stdout
        if check["fix"]:
            assert check["fix"] in text.stdout


def doctor_check(kscope, name, **env):
    document = one_document(kscope("doctor", "--json", env=env))
    return next(check for check in document["checks"] if check["id"] == name)


def test_doctor_asks_the_python_that_run_takes(kscope, tmp_path):
    venv_python = tmp_path / "bin" / "python"
    venv_python.parent.mkdir()
    for path, version in ((venv_python, "3.12.7"), (tmp_path / "mine", "3.13.8")):
        path.write_text(f"#!/bin/sh\necho {version}; echo $0; echo 2.{version}\n")
        path.chmod(0o755)
    venv = {"KSCOPE_PYTHON": "", "VIRTUAL_ENV": str(tmp_path)}
    assert doctor_check(kscope, "python", **venv)["found"].startswith("3.12.7 at ")
    both = {**venv, "KSCOPE_PYTHON": str(tmp_path / "mine")}
    assert doctor_check(kscope, "python", **both)["found"].startswith("3.13.8 at ")
    assert doctor_check(kscope, "torch", **both)["found"] == "2.3.13.8"


def test_doctor_with_no_python_or_a_slow_one(kscope, tmp_path):
    check = doctor_check(kscope, "python", KSCOPE_PYTHON="/no/python")
    assert (check["state"], check["found"]) == ("missing", "/no/python cannot be started")
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 20\n")
    slow.chmod(0o755)
    check = doctor_check(kscope, "python", KSCOPE_PYTHON=str(slow))
    assert check["state"] == "limited"
    assert "does not answer within" in check["found"]
    assert doctor_check(kscope, "torch", KSCOPE_PYTHON=str(slow))["state"] == "limited"


def test_info(kscope, damaged):
    run = kscope("info", damaged)
    assert run.returncode == 0
    assert "[repaired_strings]" in run.stdout
    document = one_document(kscope("info", "--json", damaged))
    assert document["schema"] == "kinetoscope.info/1"
    counters = document["inputs"][0]["counters"]
    assert [c["count"] for c in counters if c["name"] == "repaired_strings"] == [1]


# ---------------------------------------------------------------- paths in and out


def test_stdin(kscope, small):
    run = kscope("report", "-", input=small.read_text())
    assert run.returncode == 0
    assert run.stdout.startswith("The step takes 100 us")
    document = one_document(kscope("report", "--json", "-", input=small.read_text()))
    assert document["inputs"][0]["path"] == "-"


def test_folder(kscope, small):
    assert kscope("report", small.parent).stdout.startswith("The step takes 100 us")


def test_output_file(kscope, small, tmp_path):
    target = tmp_path / "out.json"
    run = kscope("report", "--json", "-o", target, small)
    assert (run.returncode, run.stdout) == (0, "")
    assert json.loads(target.read_text())["schema"] == "kinetoscope.report/1"
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask()
    assert kscope("report", "-o", "-", small).stdout != ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "small.json"]


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_output_replaces_the_file_behind_a_link(kscope, small, tmp_path):
    real = tmp_path / "real.txt"
    real.write_text("old")
    real.chmod(0o600)
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    assert kscope("report", "-o", link, small).returncode == 0
    assert link.is_symlink()
    assert real.read_text().startswith("The step")
    assert real.stat().st_mode & 0o777 == 0o600


def test_output_must_not_be_an_input(kscope, small):
    before = small.read_text()
    run = kscope("report", "-o", small, small)
    assert run.returncode == 2
    assert small.read_text() == before


def test_output_of_a_failure_leaves_nothing(kscope, tmp_path):
    run = kscope("report", "-o", tmp_path / "out.txt", tmp_path / "none.json")
    assert run.returncode == 3
    assert list(tmp_path.iterdir()) == []


def test_output_cannot_be_written(kscope, small, tmp_path):
    for target in (tmp_path / "no" / "folder.txt", tmp_path, "/dev/full"):
        run = kscope("report", "-o", target, small)
        assert run.returncode == 125
        assert f"kscope: {target}: Cannot" in run.stderr


def test_full_disk(small):
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [PROGRAM, "report", small], stdout=full, stderr=subprocess.PIPE, env=environment()
        )
    assert run.returncode == 125
    assert b"No space left on device" in run.stderr


@pytest.mark.parametrize("ignored", [False, True])
def test_broken_pipe_is_quiet(small, ignored):
    read, write = os.pipe()
    os.close(read)

    def set_pipe():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN if ignored else signal.SIG_DFL)

    with os.fdopen(write, "wb") as pipe:
        run = subprocess.run(
            [PROGRAM, "report", small],
            stdout=pipe,
            stderr=subprocess.PIPE,
            env=environment(),
            preexec_fn=set_pipe,
            restore_signals=False,
        )
    assert run.stderr == b""
    assert run.returncode == (141 if ignored else -signal.SIGPIPE)


# ---------------------------------------------------------------- colours


def run_on_terminal(words, env):
    """What the program writes when stdout is a terminal of 80 columns."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, *map(str, words)], stdout=follower, stdin=subprocess.DEVNULL, env=env
    )
    os.close(follower)
    text = b""
    while select.select([leader], [], [], 30)[0]:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    process.wait(timeout=30)
    os.close(leader)
    return text.decode()


@pytest.mark.parametrize(
    ("terminal", "env", "words", "coloured"),
    [
        (True, {}, [], True),
        (False, {}, [], False),
        (True, {"TERM": "dumb"}, [], False),
        (True, {"NO_COLOR": "1"}, [], False),
        (True, {"NO_COLOR": ""}, [], True),
        (False, {"FORCE_COLOR": "1"}, [], True),
        (False, {"CLICOLOR_FORCE": "1"}, [], True),
        (False, {"CLICOLOR_FORCE": "0"}, [], False),
        (False, {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, [], False),
        (False, {"NO_COLOR": "1"}, ["--color=always"], True),
        (True, {"FORCE_COLOR": "1"}, ["--color", "never"], False),
        (False, {"TERM": "dumb", "FORCE_COLOR": "1"}, [], True),
    ],
)
def test_colour(kscope, small, terminal, env, words, coloured):
    merged = environment(**env)
    if terminal:
        text = run_on_terminal(["report", *words, small], merged)
    else:
        text = subprocess.run(
            [PROGRAM, "report", *words, small], capture_output=True, text=True, env=merged
        ).stdout
    assert "The step takes" in text
    assert ("\x1b[" in text) == coloured


def test_colours_say_nothing_alone(kscope, small):
    plain = kscope("report", "--color=never", small).stdout
    coloured = kscope("report", "--color=always", small).stdout
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


def test_json_never_has_colours(kscope, small):
    assert "\x1b" not in kscope("report", "--json", "--color=always", small).stdout


def test_plain_locale_gets_plain_text(kscope, small):
    text = kscope("report", small, env={"LC_ALL": "C"}).stdout
    assert text.isascii()
    assert not kscope("report", small).stdout.isascii()


# ---------------------------------------------------------------- names from inputs


NASTY = "evil\x1b]0;title\x07\u202egnp.exe\r\n\u0085x"


def test_names_cannot_act_on_the_terminal(kscope, tmp_path):
    path = tmp_path / "nasty.json"
    events = [
        {"ph": "X", "cat": "cpu_op", "name": NASTY, "pid": 1, "tid": 1, "ts": 1, "dur": 9},
        {"ph": "X", "cat": "kernel", "name": NASTY, "pid": 0, "tid": 7, "ts": 1, "dur": 9,
         "args": {"device": 0, "stream": 7, "correlation": 1}},
    ]  # fmt: skip
    path.write_text(json.dumps({"traceEvents": events}))
    for words in ([], ["--table", "operators"], ["--table", "kernels"]):
        text = kscope("report", *words, "--width", "200", path).stdout
        for character in "\x1b\x07\u202e\r\u0085":
            assert character not in text
    document = one_document(kscope("report", "--json", path))
    assert document["operators"][0]["name"] == NASTY
    assert "\x1b" not in kscope("report", "--json", path).stdout


def test_lines_keep_to_the_width(kscope, small):
    for width, words in (
        (40, []),
        (80, []),
        (80, ["--table", "operators"]),
        (80, ["--table", "steps"]),
        (132, ["--table", "steps"]),
    ):
        with_room = kscope("report", "--width", width, *words, small).stdout
        for line in with_room.splitlines():
            # A command to type stays in one piece.
            assert len(line) <= width or line.startswith("next"), (width, line)


def test_one_screen(kscope, small):
    assert len(kscope("report", small).stdout.splitlines()) <= 24
