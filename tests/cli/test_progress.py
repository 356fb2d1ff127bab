"""Goal: on a terminal a long command says how far it is and takes that away again; what ends it
early leaves nothing behind. Method: a pseudo-terminal for stderr, and a trace that comes through a
pipe which the test holds open for as long as it likes."""

import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest
from cli_program import PROGRAM, SMALL, environment

ERASE = b"\r\x1b[K"
SECONDS_MAX = 60
TRACE = json.dumps(SMALL).encode()


class Program:
    """A command that reads a pipe, with stderr on a terminal."""

    def __init__(self, *words, **env):
        self.screen = b""
        self.terminal, inner = pty.openpty()
        self.process = subprocess.Popen(
            [PROGRAM, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=inner,
            env=environment(**env),
        )
        os.close(inner)
        self.process.stdin.write(TRACE[:100])
        self.process.stdin.flush()

    def read_screen(self, seconds):
        readable, _, _ = select.select([self.terminal], [], [], seconds)
        try:
            self.screen += os.read(self.terminal, 65536) if readable else b""
        except OSError:  # nobody has the other side any more
            return False
        return bool(readable)

    def wait_for(self, text):
        deadline = time.monotonic() + SECONDS_MAX
        while text not in self.screen:
            assert time.monotonic() < deadline, self.screen
            self.read_screen(0.1)

    def finish(self):
        """Gives the rest of the trace; status and what is left on the screen."""
        out, _ = self.process.communicate(TRACE[100:], timeout=SECONDS_MAX)
        while self.read_screen(0):
            pass
        os.close(self.terminal)
        return self.process.returncode, out, self.screen

    def end_by(self, number):
        self.process.send_signal(number)
        self.process.wait(timeout=SECONDS_MAX)
        self.process.stdin.close()
        self.process.stdout.close()
        while self.read_screen(0):
            pass
        os.close(self.terminal)
        return self.process.returncode, self.screen


@pytest.mark.parametrize(
    "words",
    [
        ("report", "--json", "-"),
        ("info", "-"),
        ("query", "--csv", "-", "select name from slice"),
        ("convert", "-"),
    ],
)
def test_a_line_comes_and_goes(words):
    program = Program(*words)
    program.wait_for(b"kscope: reading, 0 MB so far")
    status, out, screen = program.finish()
    assert status == 0 and len(out) > 20
    assert screen.endswith(ERASE) and b"\n" not in screen


def test_no_share_of_what_has_no_size(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(TRACE)
    program = Program("report", "--json", "--run", "1", path, "-")
    program.wait_for(b"so far")  # one of the two has no size
    assert b"%" not in program.screen
    program.end_by(signal.SIGKILL)


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (("report", "--quiet", "-"), {}),
        (("report", "-q", "-"), {}),
        (("report", "-"), {"TERM": "dumb"}),
        (("report", "-"), {"TERM": ""}),
    ],
)
def test_no_line_is_wanted(words, env):
    program = Program(*words, **env)
    deadline = time.monotonic() + 1.5  # it would come after half a second
    while time.monotonic() < deadline:
        program.read_screen(0.1)
    status, _, screen = program.finish()
    assert (status, screen) == (0, b"")


def test_no_line_without_a_terminal():
    with subprocess.Popen(
        [PROGRAM, "report", "--json", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        process.stdin.write(TRACE[:100])
        process.stdin.flush()
        time.sleep(1)
        out, err = process.communicate(TRACE[100:], timeout=SECONDS_MAX)
    assert (process.returncode, err) == (0, b"") and out.startswith(b"{")


def test_a_message_has_a_line_of_its_own():
    """A failure is said where the line was."""
    program = Program("report", "-")
    program.wait_for(b"so far")
    program.process.stdin.close()
    program.process.stdin = None
    program.process.wait(timeout=SECONDS_MAX)
    while program.read_screen(0):
        pass
    last = program.screen.rsplit(ERASE, 1)[1]
    assert last == b"" or last.startswith(b"kscope: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", ["report", "query"])
def test_a_signal_ends_it_and_leaves_nothing(tmp_path, command, number):
    files = tmp_path / "files"
    spill = tmp_path / "spill"
    files.mkdir()
    spill.mkdir()
    words = [command, "--memory", "1M", "-o", files / "out", "-"]
    words += ["select 1"] if command == "query" else []
    program = Program(*words, TMPDIR=str(spill))
    program.wait_for(b"so far")
    status, screen = program.end_by(number)
    assert status == -number  # a shell shows 128 and the number
    assert screen.endswith(ERASE)
    assert list(files.iterdir()) == [] and list(spill.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_takes_the_unfinished_file_away(tmp_path, small, number):
    sql = "with recursive n(x) as (values (1) union all select x + 1 from n) select x from n"
    process = subprocess.Popen([PROGRAM, "query", "--csv", "-o", tmp_path / "rows", small, sql])
    deadline = time.monotonic() + SECONDS_MAX
    while not [file for file in tmp_path.iterdir() if file.name.startswith("rows.")]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    process.wait(timeout=SECONDS_MAX)
    assert process.returncode == -number
    assert [file.name for file in tmp_path.iterdir()] == ["small.json"]


def test_ignored_signals_stay_ignored(small):
    """As nohup starts programs."""
    done = subprocess.run(
        ["sh", "-c", f'trap "" HUP INT; {PROGRAM} report - > /dev/null & '
         "sleep 0.5; kill -HUP $!; kill -INT $!; wait $!"],
        input=TRACE,
        env=environment(),
        timeout=SECONDS_MAX,
        check=False,
    )  # fmt: skip
    assert done.returncode in (0, 3)  # 3: a shell gives its background job no input
