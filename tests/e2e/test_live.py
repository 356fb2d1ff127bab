"""Goal: `kscope live` tells of a run what is so, while it goes on and when it has ended, without
touching it, whatever lies in its folder.

Method: one real training run that counts its own steps by a clock of its own; folders made by hand
(run_folder.py) with one difference each; a pseudo terminal that is read as a terminal would.
"""

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import time
from fcntl import ioctl
from termios import TIOCSWINSZ

import jsonschema
import pytest
from run_folder import KSCOPE, ROOT, TIMEOUT_S, environment, write_status, write_trace

SCHEMA = json.loads((ROOT / "docs" / "live.schema.json").read_text())
SECOND = 1_000_000_000


def live(*words, **more):
    return subprocess.run(
        [KSCOPE, "live", *map(str, words)],
        capture_output=True,
        text=True,
        env=environment(LC_ALL="C.UTF-8", NO_COLOR="", **more),
        timeout=TIMEOUT_S,
    )


def look(folder):
    done = live("--once", "--json", folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return checked(done.stdout)


def checked(line):
    document = json.loads(line)
    jsonschema.validate(document, SCHEMA)
    return document


def text_of(folder, *words):
    done = live("--once", *words, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pace(per_s, seconds=20, every=2, ago_s=1.0):
    """The arrays of a process that has made `per_s` steps a second."""
    now = time.time_ns() - int(ago_s * SECOND)
    ages = range(seconds, -1, -every)
    return {
        "pace_steps": [1 + round((seconds - age) * per_s) for age in ages],
        "pace_ns": [now - age * SECOND for age in ages],
        "steps_seen": 1 + round(seconds * per_s),
    }


def write_monitor(folder, age_s=0.0, lines=({},)):
    now = time.time_ns() - int(age_s * SECOND)
    path = folder / "monitor.jsonl"
    rows = [
        {"time_ns": now - (len(lines) - i) * SECOND, "interval_ns": SECOND, "cpu_percent": 150.0,
         "rss_bytes": 1 << 30, **line}
        for i, line in enumerate(lines)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, ns=(now, now))


# ---------------------------------------------------------------- a real run

TRAIN = """
import sys, time
import torch
torch.manual_seed(7)
torch.set_num_threads(1)
model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
end = time.monotonic() + float(sys.argv[1])
steps = 0
while time.monotonic() < end:
    loss = model(torch.randn(8, 32)).square().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
    steps += 1
    print(time.time_ns(), steps, flush=True)
"""


def test_a_training_run(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    run = subprocess.Popen(
        [KSCOPE, "run", "--out", "out", "--no-stacks", "train.py", "6"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    out = tmp_path / "out"
    looks = []
    try:
        deadline = time.monotonic() + 60
        while run.poll() is None and time.monotonic() < deadline:
            if any(out.glob("*.status")):
                looks.append(look(out))
            time.sleep(0.5)
        printed, _ = run.communicate(timeout=TIMEOUT_S)
    finally:
        run.kill()
    own = {int(steps): int(at) for at, steps in (line.split() for line in printed.splitlines())}

    paced = [seen for seen in looks if seen["steps_per_s"] and seen["state"] == "running"]
    assert paced, looks
    (rank,) = paced[-1]["ranks"]
    at = rank["last_step_ns"]
    recent = [step for step, ns in own.items() if at - 10 * SECOND <= ns <= at]
    own_rate = (recent[-1] - recent[0]) / (own[recent[-1]] - own[recent[0]]) * SECOND
    assert rank["steps_per_s"] == pytest.approx(own_rate, rel=0.2)
    assert abs(own[rank["steps"]] - at) < SECOND
    assert paced[-1]["program"] == "train.py 6"
    assert paced[-1]["machine"]["process_count"] >= 1

    # Afterwards it is over, and counted to the end.
    os.utime(out / "monitor.jsonl", ns=(1, 1))  # its writer has ended, some time ago
    over = look(out)
    assert over["state"] == "over"
    assert over["steps"] == max(own)
    assert over["ranks"][0]["ended_by_itself"] is True
    assert "The program has ended by itself" in text_of(out)

    # What the report says is told, also before the program ended.
    report = json.loads((out / "report.json").read_text())
    assert any(seen["report"] for seen in looks)
    assert over["report"]["bound_by"] == report["verdict"]["bound_by"]
    assert over["report"]["step_ns"] == pytest.approx(step_ns_of(report), rel=1e-6)
    assert sum(over["report"]["parts"].values()) == pytest.approx(1.0)
    ids = [finding["id"] for finding in report["findings"]]
    assert [finding["id"] for finding in over["report"]["findings"]] == ids[:3]


def step_ns_of(report):
    complete = [step["dur_ns"] for step in report["steps"] if step["complete"]]
    return sum(complete) / len(complete)


# ---------------------------------------------------------------- folders by hand


def test_a_job_without_steps_yet(tmp_path, living):
    write_monitor(tmp_path)
    seen = look(tmp_path)
    assert (seen["state"], seen["steps"], seen["ranks"]) == ("running", 0, [])
    assert "no process has imported torch yet" in text_of(tmp_path)
    write_status(tmp_path, pid=living, state="waiting", steps_seen=0, explanation="It ended.")
    text = text_of(tmp_path)
    assert "no step yet" in text
    assert "It ended." not in text  # what it would say at its end is not so


def test_silence_is_said(tmp_path, living):
    write_status(tmp_path, pid=living, state="waiting", **pace(5, ago_s=75))
    text = text_of(tmp_path)
    assert "5.00 steps/s" in text
    assert "no step since 1 min 15 s" in text


def test_killed_and_ended(tmp_path, dead):
    write_trace(tmp_path, pid=dead)
    write_status(tmp_path, pid=dead, argv=["train.py", "--x"], **pace(5))
    write_monitor(tmp_path, age_s=60)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    seen = look(tmp_path)
    assert seen["state"] == "over"
    assert seen["ranks"][0]["ended_by_itself"] is False
    assert "was killed, or crashed after at least 101 steps" in text_of(tmp_path)
    write_status(tmp_path, pid=dead, argv=["train.py"], is_over=True, **pace(5))
    assert "has ended by itself after 101 steps" in text_of(tmp_path)
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert set(after) == set(before)  # nothing of ours lies there


def test_processes_ended_and_the_run_goes_on(tmp_path, dead):
    write_status(tmp_path, pid=dead, **pace(5))
    write_monitor(tmp_path)
    assert look(tmp_path)["state"] == "ending"


def test_why_nothing_is_recorded(tmp_path, living):
    write_status(tmp_path, pid=living, state="off", explanation="The window was dropped: X.")
    text = text_of(tmp_path)
    assert "not recorded any more" in text
    assert "The window was dropped: X." in text


def test_many_ranks(tmp_path, living):
    for rank in range(64):
        rate = {17: 4.0, 40: 6.0}.get(rank, 5.0)
        state = "recording" if rank == 3 else "waiting"
        write_status(tmp_path, rank=rank, pid=living, state=state, **pace(rate))
    seen = look(tmp_path)
    assert len(seen["ranks"]) == 64
    assert (seen["slowest_rank"], seen["fastest_rank"]) == (17, 40)
    assert seen["steps_per_s"] == pytest.approx(5.0)
    text = text_of(tmp_path)
    assert "64 ranks" in text
    assert "slowest 4.00/s (rank 17)" in text
    assert "fastest 6.00/s (rank 40)" in text
    assert "63 wait for the window  1 record the window" in text


def test_limits_and_gpus(tmp_path, living):
    limits = {
        "cgroup_cpu_quota_us": 150_000,
        "cgroup_cpu_period_us": 100_000,
        "cgroup_memory_bytes": 3 << 30,
        "cgroup_memory_max_bytes": 4 << 30,
    }
    gpu = {"index": 1, "busy_percent": 93, "memory_bytes": 30 << 30, "reasons": 4,
           "memory_total_bytes": 80 << 30, "sm_mhz": 1410, "sm_mhz_max": 1980}  # fmt: skip
    first = {**limits, "cgroup_periods": 100, "cgroup_throttled": 50}
    last = {**limits, "cgroup_periods": 110, "cgroup_throttled": 55, "gpus": [gpu]}
    write_monitor(tmp_path, lines=(first, last))
    write_status(tmp_path, pid=living, **pace(5))
    text = text_of(tmp_path)
    assert "150 % (1.5 cores)  limit 1.50 cores  held back in 50 % of periods" in text
    assert "75 %  limit 4.00 GiB" in text
    assert "93 % busy  30.0 GiB of 80.0 GiB  1,410 of 1,980 MHz  power limit" in text
    (seen,) = look(tmp_path)["machine"]["gpus"]
    assert seen["held_back_by"] == "power limit"


def test_a_window_of_several_ranks(tmp_path, living):
    for rank in range(2):
        write_trace(tmp_path, rank=rank, pid=living, world=2, window=2)
        write_status(tmp_path, rank=rank, pid=living, **pace(5))
    write_trace(tmp_path, pid=living, world=2, window=1, step_us=9000)
    seen = look(tmp_path)
    assert (seen["window"], seen["window_ranks"], seen["report"]["window"]) == (2, 2, 2)
    assert seen["report"]["step_ns"] == SECOND // 1000
    assert "window   2: Each step takes 1.00 ms" in text_of(tmp_path)


# ---------------------------------------------------------------- damage


def test_damaged_files_are_none(tmp_path, living):
    write_monitor(tmp_path, lines=({}, {}))
    whole = (tmp_path / "monitor.jsonl").read_bytes()
    (tmp_path / "monitor.jsonl").write_bytes(whole + b'{"time_ns": 12')
    (tmp_path / "kscope-run.rank9.pid9.status").write_bytes(b'{"schema": "kinetosc')
    (tmp_path / "kscope-run.rank8.pid8.status").mkdir()
    os.mkfifo(tmp_path / "kscope-run.rank7.pid7.status")
    (tmp_path / "rank0.pid1.window1.pt.trace.json.gz").write_bytes(b"\x1f\x8b no gzip")
    write_status(tmp_path, pid=living, pace_steps=[1, "x"], pace_ns=[None, 5], argv={"a": 1})
    seen = look(tmp_path)
    assert [rank["rank"] for rank in seen["ranks"]] == [0]
    assert seen["machine"]["cpu_percent"] == 150.0
    assert seen["report"] is None
    assert seen["report_failure"]
    assert "window 1 cannot be shown" in text_of(tmp_path)


@pytest.mark.parametrize("count", [450, 1200])  # 32 to 64 KiB, and more
def test_the_last_line_of_a_long_file_counts(tmp_path, living, count):
    write_monitor(tmp_path, lines=({},) * (count - 1) + ({"cpu_percent": 42.0},))
    assert (tmp_path / "monitor.jsonl").stat().st_size > 32 * 1024
    write_status(tmp_path, pid=living)
    assert look(tmp_path)["machine"]["cpu_percent"] == 42.0


def test_no_folder_of_a_run(tmp_path):
    for path, part in ((tmp_path, "nothing that kscope run writes"), (tmp_path / "no", "No such")):
        done = live("--json", "--once", path)
        assert done.returncode == 3
        assert part in json.loads(done.stdout)["error"]["message"]
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("value", ["0", "-1", "x", "1e9", ""])
def test_interval_that_makes_no_sense(tmp_path, value):
    done = live(f"--interval={value}", tmp_path)
    assert done.returncode == 2
    assert "0.1 to 3600 seconds" in done.stderr


def test_hostile_words(tmp_path, living):
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\u009b31m\r\n<b>"
    write_status(tmp_path, pid=living, state="off", argv=[evil], explanation=evil, **pace(5))
    for words in (("--color", "never"), ("--color", "always")):
        text = text_of(tmp_path, *words)
        plain = re.sub(r"\x1b\[[0-9]?[0-9]?m", "", text)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", plain)
    assert look(tmp_path)["program"] == " ]0;owned  [2J\u202e\u009b31m  <b>"


# ---------------------------------------------------------------- a terminal


class Terminal:
    """A program on a pseudo terminal; `screen` is what a terminal of that size would show."""

    def __init__(self, *words, columns=80, rows=24):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = environment(LC_ALL="C.UTF-8", TERM="xterm")
            env.pop("NO_COLOR", None)
            time.sleep(0.1)  # the size is set by then
            os.execve(KSCOPE, [KSCOPE, "live", *map(str, words)], env)
        ioctl(self.fd, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.rows = rows
        self.bytes = b""

    def read(self, seconds, until=None):
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                try:
                    part = os.read(self.fd, 65536)
                except OSError:
                    part = b""
                if not part:
                    return
                self.bytes += part
            if until and until in "\n".join(self.screen()):
                return

    def screen(self):
        """Lines from the top of the last picture on; every control sequence must be known."""
        lines, row = [""], 0
        for mark, text in re.findall(r"(\x1b\[[0-9;]*[A-Za-z]|[\r\n])|([^\x1b\r\n]+)",
                                     self.bytes.decode()):  # fmt: skip
            if text:
                lines[row] += text
            elif mark == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif mark.endswith("A"):
                row -= int(mark[2:-1])
                assert row >= 0
            elif mark == "\r":
                pass
            elif mark == "\x1b[J":
                del lines[row + 1 :]
            elif mark == "\x1b[K":
                pass
            else:
                assert re.fullmatch(r"\x1b\[[0-9]+m", mark), mark
            if mark.endswith("A"):
                lines[row:] = [""] * (len(lines) - row)  # what follows is painted as a whole
        return lines

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_terminal_of_any_width(tmp_path, living, columns):
    write_trace(tmp_path, pid=living)
    write_status(tmp_path, pid=living, argv=["train.py", "x" * 300], **pace(5))
    write_monitor(tmp_path)
    terminal = Terminal("--interval", "0.2", tmp_path, columns=columns)
    try:
        terminal.read(10, until="window   Each step")
        write_status(tmp_path, pid=living, argv=["train.py"], **pace(7))
        terminal.read(10, until="7.00 steps/s")
        screen = terminal.screen()
    finally:
        terminal.end()
    assert "7.00 steps/s" in "\n".join(screen)
    assert "5.00 steps/s" not in "\n".join(screen)  # painted over
    assert len(screen) <= 24
    assert all(len(line) <= columns for line in screen)


def test_terminal_to_the_end(tmp_path):
    process = subprocess.Popen(["sleep", "600"])
    write_status(tmp_path, pid=process.pid, **pace(5))
    terminal = Terminal("--interval", "0.2", tmp_path)
    try:
        terminal.read(10, until="5.00 steps/s")
        process.kill()
        process.wait()
        terminal.read(10)
        _, status = os.waitpid(terminal.pid, 0)
    finally:
        process.kill()
        os.close(terminal.fd)
    assert os.waitstatus_to_exitcode(status) == 0
    assert "The program was killed, or crashed" in "\n".join(terminal.screen())


def test_interrupt(tmp_path, living):
    write_status(tmp_path, pid=living, **pace(5))
    process = subprocess.Popen(
        [KSCOPE, "live", "--json", "--interval", "0.1", tmp_path],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    for _ in range(3):
        checked(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == -signal.SIGINT


def test_folder_that_goes_away(tmp_path, living):
    folder = tmp_path / "out"
    folder.mkdir()
    write_status(folder, pid=living, **pace(5))
    process = subprocess.Popen(
        [KSCOPE, "live", "--json", "--interval", "0.1", folder],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    checked(process.stdout.readline())
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert checked(out.splitlines()[-1])["state"] == "over"


def test_a_new_window_is_read_once(tmp_path, living):
    """The report of a window that has not changed is kept: its file may be gone by then."""
    write_status(tmp_path, pid=living, **pace(5))
    first = write_trace(tmp_path, pid=living, window=1, step_us=1000)
    process = subprocess.Popen(
        [KSCOPE, "live", "--json", "--interval", "0.1", tmp_path],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    try:
        seen = checked(process.stdout.readline())
        assert seen["report"]["step_ns"] == 1_000_000
        write_trace(tmp_path, pid=living, window=2, step_us=3000)
        os.unlink(tmp_path / first)
        deadline = time.monotonic() + 10
        while seen["report"]["window"] == 1 and time.monotonic() < deadline:
            seen = checked(process.stdout.readline())
        assert seen["report"]["step_ns"] == 3_000_000
    finally:
        process.kill()
        process.communicate()
