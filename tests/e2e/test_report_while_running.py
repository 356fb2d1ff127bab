"""Goal: the report of a window is there seconds after it closed, while the program goes on, and
nobody notices how.

Method: one real training run that would go on for a minute; fake programs (run_folder.py) for the
rest. Times are those of the files and of a clock that reads lines of stderr as they come. The
processes are looked at in /proc, by this test alone.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from run_folder import KSCOPE, TIMEOUT_S, environment, fake_program

LIMIT_S = 10

TRAIN = """
import os, sys, time
import torch
torch.manual_seed(7)
torch.set_num_threads(1)
model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for _ in range(4):
        loss = model(torch.randn(8, 32)).square().sum()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.005)
print("end of the program")
"""


class Run:
    """A `kscope run` whose stderr is read line by line, with the time at which each came."""

    def __init__(self, cwd, *words, options=("--out", "out"), env=None):
        self.out = cwd / "out"
        self.process = subprocess.Popen(
            [KSCOPE, "run", *options, *map(str, words)],
            cwd=cwd,
            env=env or environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append((time.time(), line.rstrip("\n")))

    @property
    def text(self):
        return "\n".join(line for _, line in self.lines)

    def wait_for_line(self, part, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for at, line in list(self.lines):
                if part in line:
                    return at
            time.sleep(0.02)
        raise AssertionError(f"no line with {part!r} in:\n{self.text}")

    def end(self, number=signal.SIGTERM):
        if number is not None:
            self.process.send_signal(number)
        out = self.process.stdout.read()
        self.process.wait(timeout=TIMEOUT_S)
        self._reader.join(timeout=TIMEOUT_S)
        return out


def children_of(pid):
    """(pid, command) of the processes whose parent is `pid`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            if int(rest.split()[1]) == pid:
                found.append((int(entry.name), name.partition("(")[2]))
    return found


def reporter_of(run):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for pid, name in children_of(run.process.pid):
            if name == "kscope-report":
                return pid
        time.sleep(0.02)
    raise AssertionError("no reporter")


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_true, seconds=20):
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---------------------------------------------------------------- begun together

RANKS = """
def rank_process(rank, seconds, state="done"):
    if (pid := os.fork()) == 0:
        me = os.getpid()
        write_status(OUT, rank=rank, pid=me, state="recording")
        time.sleep(seconds)
        if state == "done":
            write_trace(OUT, rank=rank, pid=me, world=2)
            write_status(OUT, rank=rank, pid=me)
        time.sleep(60)
        os._exit(0)
"""


# Name, what the program does, whether it goes on for ever, options.
PROGRAMS = [
    (
        "late times",
        """
        write_trace(OUT, pid=ME, before_ns=[500_000])
        write_status(OUT, pid=ME, unprofiled_step_ns=[500_000])
        while not os.path.exists(OUT + "/report.json"): time.sleep(0.05)
        write_status(OUT, pid=ME, unprofiled_step_after_ns=[900_000] * 20)
        """,
        True,
        (),
    ),
    (
        "late rank",
        """
        write_trace(OUT, pid=ME, world=2)
        write_status(OUT, pid=ME)
        while not os.path.exists(OUT + "/report.json"): time.sleep(0.05)
        import run_folder
        run_folder.span = lambda name, *rest, span=run_folder.span: span(
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
            if name == "aten::mm" else name, "user_annotation", *rest[1:])
        write_trace(OUT, rank=1, pid=ME + 1, world=2, step_us=50_000)
        write_status(OUT, rank=1, pid=ME + 1)
        """,
        False,
        (),
    ),
    ("two ranks", RANKS + "rank_process(0, 0.2); rank_process(1, 2)", True, ()),
    ("one rank of two", RANKS + "rank_process(0, 0.2); rank_process(1, 0, 'recording')", True, ()),
    (
        "stopped",
        "write_trace(OUT, pid=ME); write_status(OUT, pid=ME)",
        True,
        ("--stop-after",),
    ),
    (
        "deaf",
        """
        signal.signal(signal.SIGTERM, lambda *_: print("heard", flush=True))
        write_trace(OUT, pid=ME); write_status(OUT, pid=ME, is_over=True)
        """,
        True,
        ("--stop-after",),
    ),
]


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Runs that wait for seconds, each for itself: begun together, they wait at the same time."""
    runs = {}
    for name, text, forever, options in PROGRAMS:
        folder = tmp_path_factory.mktemp("begun")
        program = fake_program(folder, text, forever=forever)
        runs[name] = Run(folder, program, options=("--out", "out", *options))
    yield runs
    for run in runs.values():
        if run.process.poll() is None:
            end_group(run)


# ---------------------------------------------------------------- in time


@pytest.mark.torch
def test_report_of_a_real_program_that_goes_on(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(TRAIN)
    run = Run(tmp_path, program, "60")
    shown_at = run.wait_for_line("Each step takes")
    (trace,) = run.out.glob("*.window1.pt.trace.json.gz")
    closed_at = trace.stat().st_mtime
    assert run.process.poll() is None
    assert shown_at - closed_at < LIMIT_S
    for name in ("report.txt", "report.json"):
        assert (run.out / name).stat().st_mtime - closed_at < LIMIT_S
    document = json.loads((run.out / "report.json").read_text())
    assert document["schema"] == "kinetoscope.report/1"
    assert "Each step takes" in (run.out / "report.txt").read_text()
    assert "the program is still running" in (run.out / "report.txt").read_text()
    time.sleep(1)
    assert run.process.poll() is None
    assert run.end() == ""
    assert run.process.returncode == -signal.SIGTERM
    assert run.text.count("Each step takes") == 1
    assert list(run.out.glob("*.tmp")) == []


def test_final_report_of_a_short_program(tmp_path):
    program = fake_program(tmp_path, "write_trace(OUT, pid=ME); write_status(OUT, pid=ME)")
    run = Run(tmp_path, program)
    run.end(None)
    assert run.process.returncode == 0
    assert run.text.count("Each step takes 1.00 ms") == 1
    assert run.lines[-1][1].endswith("kscope report out")
    assert "still running" not in (run.out / "report.txt").read_text()
    assert not (run.out / "report.window1.txt").exists()


def test_no_wait_when_all_is_there(tmp_path):
    program = fake_program(
        tmp_path,
        """
        write_trace(OUT, pid=ME)
        write_trace(OUT, pid=ME, stacks=True)
        write_status(OUT, pid=ME, unprofiled_step_after_ns=[900_000] * 20)
        """,
        forever=True,
    )
    run = Run(tmp_path, program)
    shown_at = run.wait_for_line("Each step takes")
    (trace,) = run.out.glob("*.window1.pt.trace.json.gz")
    assert shown_at - trace.stat().st_mtime < 3
    run.wait_for_line("unprofiled", 1)
    assert "still running" in (run.out / "report.txt").read_text()
    run.end()
    assert "still running" not in (run.out / "report.txt").read_text()


def test_what_comes_late_gets_into_the_files_unsaid(begun):
    run = begun["late times"]
    run.wait_for_line("500 us unprofiled")
    wait_until(lambda: "900 us unprofiled" in (run.out / "report.txt").read_text())
    run.end()
    assert run.text.count("unprofiled") == 1


def test_another_verdict_at_the_end_is_shown(begun):
    """Rank 1 comes late, and its steps are spent in the loader."""
    run = begun["late rank"]
    run.end(None)
    assert run.text.count("Each step takes") == 2
    assert "waits for the data loader" in run.text


# ---------------------------------------------------------------- ranks and windows


def test_ranks_are_waited_for(begun):
    run = begun["two ranks"]
    run.wait_for_line("window 1 is recorded by all 2 ranks")
    run.wait_for_line("Each step takes")
    document = json.loads((run.out / "report.json").read_text())
    assert sorted(row["rank"] for row in document["inputs"]) == [0, 1]


def test_a_rank_that_does_not_come_is_said(begun):
    run = begun["one rank of two"]
    shown_at = run.wait_for_line("window 1 is recorded by 1 of 2 ranks")
    (trace,) = run.out.glob("*.window1.pt.trace.json.gz")
    assert shown_at - trace.stat().st_mtime < LIMIT_S


def end_group(run):
    """The fake ranks are no children of ours, but of our group."""
    os.killpg(run.process.pid, signal.SIGKILL)
    run.process.communicate(timeout=TIMEOUT_S)


def test_each_window_is_reported_and_kept(tmp_path):
    program = fake_program(
        tmp_path,
        """
        done = [900_000] * 20
        for window in (1, 2, 3):
            write_trace(OUT, pid=ME, window=window, step_us=window * 1000)
            write_trace(OUT, pid=ME, window=window, stacks=True)
            write_status(OUT, pid=ME, unprofiled_step_after_ns=done)
            while not os.path.exists(f"{OUT}/report.window{window}.json"): time.sleep(0.05)
        """,
    )
    run = Run(tmp_path, program, options=("--out", "out", "--steps", "5:1:6:3"))
    run.end(None)
    for window in (1, 2, 3):
        assert f"takes {window}.00 ms" in (run.out / f"report.window{window}.txt").read_text()
        assert run.text.count(f"takes {window}.00 ms") == 1
    assert (run.out / "report.txt").read_text() == (run.out / "report.window3.txt").read_text()


# ---------------------------------------------------------------- --stop-after


def test_stop_after_ends_the_program(begun):
    run = begun["stopped"]
    run.end(None)
    assert run.process.returncode == 0
    assert "the program was ended (--stop-after)" in run.text
    assert run.text.count("Each step takes") == 1
    assert "still running" not in (run.out / "report.txt").read_text()


@pytest.mark.parametrize("listens", [True, False])
def test_stop_after_ends_what_the_program_started(tmp_path, listens):
    """A shell that dies of SIGTERM leaves its children behind; some do not listen at all."""
    deaf = "" if listens else "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    text = f"write_trace(OUT, pid=ME); write_status(OUT, pid=ME, is_over=True)\n{deaf}"
    program = fake_program(tmp_path, text + "open('pid', 'w').write(str(ME))", forever=True)
    shell = f"{sys.executable} {program} & wait"
    run = Run(tmp_path, "sh", "-c", shell, options=("--out", "out", "--stop-after"))
    run.end(None)
    assert run.process.returncode == 0
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_program_that_does_not_listen_is_killed(begun):
    run = begun["deaf"]
    assert run.end(None) == "heard\n"
    assert run.process.returncode == 0


def test_a_program_that_ends_before_its_report_keeps_its_status(tmp_path):
    program = fake_program(tmp_path, "write_trace(OUT, pid=ME); sys.exit(7)")
    run = Run(tmp_path, program, options=("--out", "out", "--stop-after"))
    run.end(None)
    assert run.process.returncode == 7
    assert "--stop-after" not in run.text


@pytest.mark.torch
def test_torchrun_is_reported_and_stopped(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import torch.distributed\ntorch.distributed.init_process_group('gloo')\n" + TRAIN
    )
    words = ("-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=29731")
    options = ("--out", "out", "--stop-after")
    run = Run(tmp_path, *words, program, "100", options=options)
    run.wait_for_line("window 1 is recorded by all 2 ranks", 90)
    run.end(None)
    assert run.process.returncode == 0
    document = json.loads((run.out / "report.json").read_text())
    assert sorted(row["rank"] for row in document["inputs"]) == [0, 1]
    for status in run.out.glob("*.status"):
        assert not is_alive(json.loads(status.read_text())["pid"])


# ---------------------------------------------------------------- not in the way


def test_the_reporter_holds_nothing_and_stays_behind(tmp_path):
    kept, given = os.pipe()
    os.set_inheritable(given, True)
    words = [KSCOPE, "run", "--out", "out", "-c", "import time; time.sleep(60)"]
    process = subprocess.Popen(
        words,
        cwd=tmp_path,
        env=environment(),
        pass_fds=(given,),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    run = type("Started", (), {"process": process})
    pid = reporter_of(run)
    wait_until(lambda: os.stat(f"/proc/{pid}/fd/1").st_rdev == os.stat("/dev/null").st_rdev)
    links = {int(fd.name): os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    theirs = {os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in (0, 1, given)}
    assert theirs.isdisjoint(links.values())
    assert (links[0], links[1]) == ("/dev/null", "/dev/null")
    assert os.getpgid(pid) == pid != os.getpgid(process.pid)
    assert os.getsid(pid) == os.getsid(process.pid)
    assert os.getpriority(os.PRIO_PROCESS, pid) == 5
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
    assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
    program = next(p for p, name in children_of(process.pid) if p != pid)
    assert os.getpriority(os.PRIO_PROCESS, program) == os.getpriority(os.PRIO_PROCESS, 0)
    assert children_of(program) == []
    process.terminate()
    process.communicate(timeout=TIMEOUT_S)
    wait_until(lambda: not is_alive(pid))
    os.close(kept), os.close(given)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_reporter_ends_with_us(tmp_path, number):
    program = fake_program(tmp_path, "open('pid', 'w').write(str(ME))", forever=True)
    run = Run(tmp_path, program)
    pid = reporter_of(run)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    run.process.send_signal(number)
    run.process.wait(timeout=TIMEOUT_S)
    wait_until(lambda: not is_alive(pid))
    program_pid = int((tmp_path / "pid").read_text())
    if number == signal.SIGKILL:  # nobody could pass it on
        os.kill(program_pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(program_pid))


def test_a_dead_reporter_harms_nobody(tmp_path):
    program = fake_program(
        tmp_path, "time.sleep(3); write_trace(OUT, pid=ME); write_status(OUT, pid=ME); sys.exit(9)"
    )
    run = Run(tmp_path, program)
    os.kill(reporter_of(run), signal.SIGKILL)
    run.end(None)
    assert run.process.returncode == 9
    assert "the process that writes the report failed" in run.text


def test_signals_of_the_group_pass_the_reporter_by(tmp_path):
    program = fake_program(
        tmp_path,
        """
        got = []
        signal.signal(signal.SIGINT, lambda *_: got.append(1))
        print("ready", flush=True)
        while not got: time.sleep(0.02)
        write_trace(OUT, pid=ME); write_status(OUT, pid=ME); sys.exit(5)
        """,
    )
    run = Run(tmp_path, program)
    reporter_of(run)
    assert run.process.stdout.readline() == "ready\n"
    os.killpg(run.process.pid, signal.SIGINT)
    run.end(None)
    assert run.process.returncode == 5
    assert "Each step takes" in run.text


@pytest.mark.parametrize(
    "text",
    [
        "subprocess.Popen(['sleep', '20'], **quiet)",
        "os.fork() or (os.setsid(), os.fork() and os._exit(0), "
        "[os.close(n) for n in (0, 1, 2)], time.sleep(20), os._exit(0))",
    ],
)
def test_what_a_program_leaves_behind_is_not_waited_for(tmp_path, text):
    program = fake_program(
        tmp_path,
        "quiet = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.DEVNULL)\n"
        f"write_trace(OUT, pid=ME); write_status(OUT, pid=ME)\n{text}\nsys.exit(4)\n",
    )
    began = time.monotonic()
    run = Run(tmp_path, program)
    run.end(None)
    assert run.process.returncode == 4
    assert time.monotonic() - began < 15


def test_ending_is_not_held_up_without_a_trace(tmp_path):
    began = time.monotonic()
    run = Run(tmp_path, "-c", "pass", options=())
    run.end(None)
    assert time.monotonic() - began < 3
    assert os.listdir(tmp_path) == []


def test_standard_descriptors_that_are_closed(tmp_path):
    program = fake_program(
        tmp_path, "time.sleep(1); write_trace(OUT, pid=ME); write_status(OUT, pid=ME); sys.exit(6)"
    )
    shell = '"$0" run --out out "$1" 0<&- 1>&- 2>&-'
    done = subprocess.run(
        ["sh", "-c", shell, KSCOPE, program], cwd=tmp_path, env=environment(), timeout=TIMEOUT_S
    )
    assert done.returncode == 6
    assert "Each step takes" in (tmp_path / "out" / "report.txt").read_text()


# ---------------------------------------------------------------- options


def test_options_reach_the_program(tmp_path):
    code = "import os; print(sorted(i for i in os.environ.items() if 'KSCOPE_' in i[0]))"
    env = environment(KSCOPE_STEP_MARK="stale", KSCOPE_WINDOW_BYTES="1")
    hidden = ("KSCOPE_PYTHON", "KSCOPE_PYTHON_DIR", "KSCOPE_OUT", "KSCOPE_RUN")

    def seen(*options):
        run = Run(tmp_path, "-c", code, options=("--out", "out", *options), env=env)
        return {k: v for k, v in eval(run.end(None)) if k not in hidden}  # noqa: S307 - our own

    assert seen() == {"KSCOPE_STEPS": "auto"}
    options = "--steps 3:2:4:0 --max-trace 512M --max-seconds 30 --step-mark step --no-stacks"
    assert seen(*options.split()) == {
        "KSCOPE_STEPS": "3:2:4:0",
        "KSCOPE_STACKS": "0",
        "KSCOPE_STEP_MARK": "step",
        "KSCOPE_WINDOW_BYTES": str(512 << 20),
        "KSCOPE_WINDOW_SECONDS": "30",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--steps 1:2:3:x", "auto or WAIT:WARMUP:ACTIVE"),
        ("--max-trace 5X", "like 512M or 2G"),
        ("--max-trace 0", "like 512M or 2G"),
        ("--max-seconds 0", "number from 1"),
        ("--max-seconds ten", "number from 1"),
        ("--step-mark=", "the name is empty"),
        ("--stop-after --steps 1:1:1:0", "windows for ever"),
    ],
)
def test_options_that_make_no_sense(tmp_path, options, message):
    run = Run(tmp_path, "-c", "pass", options=options.split())
    run.end(None)
    assert run.process.returncode == 2
    assert message in run.text
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- the monitor


def test_monitor_agrees_with_proc(tmp_path):
    """One core is burnt and 200 MiB are held by a child; /proc is read here, by other means."""
    child = "x = bytearray(200 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nwhile True: pass"
    program = fake_program(
        tmp_path,
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {child!r}])\n"
        "time.sleep(6); child.kill()",
    )
    run = Run(tmp_path, program)
    reporter_of(run)
    wait_until(lambda: any(cpu_of(pid) > 0 for pid, _ in grandchildren(run)), 10)
    time.sleep(2)
    ((pid, _),) = grandchildren(run)
    begin, ticks = time.monotonic(), cpu_of(pid)
    time.sleep(2)
    used = (cpu_of(pid) - ticks) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begin) * 100
    rss = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    run.end(None)
    lines = [json.loads(line) for line in (run.out / "monitor.jsonl").read_text().splitlines()]
    rows = [row for line in lines for row in line["processes"] if row["pid"] == pid]
    assert len(rows) >= 3
    assert rows[-2]["rss_bytes"] == pytest.approx(rss, rel=0.02)
    middle = sorted(row["cpu_percent"] for row in rows)[len(rows) // 2]
    assert middle == pytest.approx(used, abs=35)  # the machine is shared
    for line in lines:
        assert line["process_count"] >= len(line["processes"]) >= 1
        assert line["cpu_percent"] == pytest.approx(
            sum(row["cpu_percent"] for row in line["processes"]), abs=0.5
        )
        assert line["rss_bytes"] >= sum(row["rss_bytes"] for row in line["processes"])
        assert 0 <= line["machine_cpu_percent"] <= 100
        assert 0 < line["machine_available_bytes"] <= line["machine_total_bytes"]
    times = [line["time_ns"] for line in lines]
    assert times == sorted(times)
    assert abs(times[-1] / 1e9 - time.time()) < 20


def grandchildren(run):
    return [found for pid, _ in children_of(run.process.pid) for found in children_of(pid)]


def cpu_of(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
