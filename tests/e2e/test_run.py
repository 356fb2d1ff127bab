"""Goal: a program under `kscope run` behaves as without it, and its steps are recorded.

Method: small programs of each kind are run both ways, and their words, folder, input, environment,
ending and losses are compared. What lands in the folder is read with json alone, not with kscope.
"""

import glob
import gzip
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import recorded
from run_folder import fake_program

ROOT = Path(__file__).resolve().parents[2]
KSCOPE = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
TIMEOUT_S = 120
# Where the window lies does not depend on how fast the machine is.
FIXED = ("--steps", "5:1:6", "--no-stacks", "--out", "out")


TRAIN = """
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Noise(Dataset):
    def __len__(self):
        return 4096
    def __getitem__(self, index):
        return torch.randn(8), torch.tensor(index % 2)

def train(steps, after_step=lambda number: None):
    torch.manual_seed(7)
    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(Noise(), batch_size=4)
    for number, (x, y) in zip(range(1, steps + 1), loader):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(number, loss.item().hex(), flush=True)
        after_step(number)
"""


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KSCOPE_")}
    ours = {"KSCOPE_PYTHON": sys.executable, "KSCOPE_PYTHON_DIR": str(ROOT / "python")}
    return {**kept, **ours, **more}


def run(*words, cwd, env=None, stdin="", options=FIXED):
    return subprocess.run(
        [KSCOPE, "run", *options, *map(str, words)],
        cwd=cwd,
        env=env or environment(),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


def start(*words, cwd, options=FIXED):
    return subprocess.Popen(
        [KSCOPE, "run", *options, *map(str, words)],
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,  # signals of the test stay there; not an orphan, so it can be stopped
    )


def run_plain(*words, cwd, env=None, stdin=""):
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=env or environment(),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


def run_warm(program, cwd, steps="5:1:6"):
    """With the hook alone, in a Python that has torch already: what the recorder does."""
    return recorded.run_recorded(cwd, program, steps=steps, stacks="0")


def script(folder, text, name="program.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def train_script(folder, then):
    return script(folder, TRAIN + textwrap.dedent(then))


def traces(folder):
    """Those of the times; the steps that were recorded for their stacks are not among them."""
    found = glob.glob(str(folder / "**" / "*.pt.trace.json.gz"), recursive=True)
    return sorted(path for path in found if not path.endswith(".stacks.pt.trace.json.gz"))


def spans(trace_path):
    """(name, start, end) in exact nanoseconds of all complete events, by start."""
    with gzip.open(trace_path, "rt") as file:
        document = json.load(file, parse_float=str)
    found = []
    for event in document["traceEvents"]:
        if event.get("ph") == "X":
            begin = nanoseconds(event["ts"])
            found.append((event["name"], begin, begin + nanoseconds(event["dur"])))
    return sorted(found, key=lambda span: span[1])


def nanoseconds(text):
    whole, _, part = str(text).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def status_files(folder):
    paths = sorted(folder.glob("kscope-run.*.status"))
    return [json.loads(path.read_text()) for path in paths]


# ---------------------------------------------------------------- ending


@pytest.mark.parametrize(
    ("code", "expected"),
    [("pass", 0), ("import sys; sys.exit(3)", 3), ("raise ValueError('mine')", 1)],
)
def test_exit_status_is_the_programs(tmp_path, code, expected):
    done = run("-c", code, cwd=tmp_path)
    assert done.returncode == expected
    assert ("ValueError: mine" in done.stderr) == (expected == 1)


def test_exit_status_when_nobody_reads_stderr(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    words = [KSCOPE, "run", "--out", "out", "-c", "import sys; sys.exit(7)"]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), stderr=writer, timeout=TIMEOUT_S)
    os.close(writer)
    assert done.returncode == 7


def test_program_that_kills_itself(tmp_path):
    done = run("-c", "import os; os.kill(os.getpid(), 9)", cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    assert "ended by signal 9" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signal_to_us_reaches_the_program_once(tmp_path, number):
    program = script(
        tmp_path,
        f"""
        import signal, sys, time
        got = []
        signal.signal({int(number)}, lambda *_: got.append(1))
        print("ready", flush=True)
        end = time.monotonic() + 20
        while not got and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.3)
        sys.exit(40 + len(got))
        """,
    )
    process = start(program, cwd=tmp_path)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 41


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_signal_without_handler_ends_both_the_same_way(tmp_path, number):
    process = start("-c", "import time; print(1, flush=True); time.sleep(30)", cwd=tmp_path)
    process.stdout.readline()
    process.send_signal(number)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == -number


def test_interrupt_is_a_keyboard_interrupt(tmp_path):
    process = start("-c", "import time; print(1, flush=True); time.sleep(30)", cwd=tmp_path)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert "KeyboardInterrupt" in errors
    assert process.returncode == -signal.SIGINT  # Python ends itself with the signal


def test_terminal_interrupt_reaches_the_program_once(tmp_path):
    """Ctrl-C on a real terminal: the kernel tells the whole group; we must not tell it again."""
    import pty

    program = script(
        tmp_path,
        """
        import signal, sys, time
        got = []
        signal.signal(signal.SIGINT, lambda *_: got.append(1))
        print("ready", flush=True)
        time.sleep(1.5)
        time.sleep(0.5)
        print("count", len(got), flush=True)
        sys.exit(40 + len(got))
        """,
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(KSCOPE, [KSCOPE, "run", "--out", "out", str(program)], environment())
    shown = b""
    while b"ready" not in shown:
        shown += os.read(terminal, 1024)
    os.write(terminal, b"\x03")
    try:
        while chunk := os.read(terminal, 1024):
            shown += chunk
    except OSError:
        pass  # the terminal is gone with the last process
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 41, shown


def test_stop_and_continue(tmp_path):
    """Stopping us stops the program, and continuing us continues it."""
    process = start(
        "-c", "import time; print(1, flush=True); time.sleep(1); print(2)", cwd=tmp_path
    )
    process.stdout.readline()
    process.send_signal(signal.SIGTSTP)
    deadline = time.monotonic() + 10
    while process_state(process.pid) != "T" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process_state(process.pid) == "T"
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert (out, process.returncode) == ("2\n", 0)


def process_state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("word", "expected"), [("no-such-program", 127), ("/etc", 126), ("./plain.txt", 126)]
)
def test_program_that_cannot_start(tmp_path, word, expected):
    (tmp_path / "plain.txt").write_text("no program")
    done = run(word, cwd=tmp_path)
    assert done.returncode == expected
    assert done.stdout == ""
    assert len([line for line in done.stderr.splitlines() if word in line]) == 1


def test_own_failure_is_125(tmp_path):
    done = run("-c", "pass", cwd=tmp_path, options=("--out", "no/such/parent"))
    assert done.returncode == 125
    done = run("-c", "print(1)", cwd=tmp_path, env=environment(KSCOPE_PYTHON_DIR="/nowhere"))
    assert (done.returncode, done.stdout) == (125, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["no-such-program", "pass"])
def test_only_a_folder_of_ours_goes_when_nothing_ran(tmp_path, word):
    env = environment() if word != "pass" else environment(KSCOPE_PYTHON_DIR="/nowhere")
    (tmp_path / "mine").mkdir()
    for name in ("mine", "new"):
        run(word, cwd=tmp_path, env=env, options=("--out", name))
    assert os.listdir(tmp_path) == ["mine"]


@pytest.mark.parametrize("kind", ["file", "dangling"])
def test_out_that_is_no_folder(tmp_path, kind):
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("x")
    else:
        out.symlink_to("nowhere")
    done = run("-c", "print(1)", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (125, "")
    assert 'path="out", it is not a folder' in done.stderr
    assert os.listdir(tmp_path) == ["out"]


def test_the_program_does_not_name_the_folder_that_built_it():
    assert str(ROOT / "python").encode() + b"\0" not in Path(KSCOPE).read_bytes()


@pytest.mark.parametrize("steps", ["", "5", "1:2", "1:2:0", "a:b:c", "1:2:3:4:5", "-1:2:3"])
def test_steps_that_make_no_sense(tmp_path, steps):
    done = run("-c", "pass", cwd=tmp_path, options=(f"--steps={steps}",))
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- the program's view

VIEW = """
import json, os, sys
hidden = {"PYTHONPATH", "_"}
print(json.dumps({
    "argv": sys.argv,
    "cwd": os.getcwd(),
    "stdin": sys.stdin.read(),
    "path": sys.path,
    "env": {k: v for k, v in os.environ.items() if k not in hidden and "KSCOPE_" not in k},
    "flags": list(sys.flags),
    "meta_path": [n for f in sys.meta_path if "Startup" not in (n := type(f).__name__)],
    "modules": sorted(m for m in sys.modules if "kinetoscope" in m and "_startup" not in m),
    "main": __name__,
    "fds": sorted(os.listdir("/proc/self/fd"))[:-1],
}))
"""


def test_program_sees_what_it_would_without_us(tmp_path):
    program = script(tmp_path, VIEW)
    words = [program, "--out", "x", "", "a b", "--", "ünïcode", "-m"]
    ours = run(*words, cwd=tmp_path, stdin="input\n")
    plain = run_plain(*words, cwd=tmp_path, stdin="input\n")
    assert json.loads(ours.stdout) == json.loads(plain.stdout)


def test_users_pythonpath_stays(tmp_path):
    (tmp_path / "lib").mkdir()
    script(tmp_path / "lib", "VALUE = 5", "users_module.py")
    program = script(tmp_path, "import users_module; print(users_module.VALUE)\n" + VIEW)
    env = environment(PYTHONPATH=str(tmp_path / "lib"))
    ours = run(program, cwd=tmp_path, env=env)
    plain = run_plain(program, cwd=tmp_path, env=env)
    assert ours.stdout == plain.stdout


def test_module_command_and_dashes(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    script(package, "", "__init__.py")
    script(package, "import sys; print(__name__, sys.argv[1:])", "tool.py")
    done = run("-m", "package.tool", "x", "-c", cwd=tmp_path, options=FIXED[:3])
    assert done.stdout == "__main__ ['x', '-c']\n"
    done = run("--", "-m", "package.tool", "y", cwd=tmp_path)
    assert done.stdout == "__main__ ['y']\n"
    done = run("-c", "import sys; print(sys.argv)", "--steps", cwd=tmp_path)
    assert done.stdout == "['-c', '--steps']\n"


def test_program_that_is_not_python(tmp_path):
    done = run("sh", "-c", 'echo "$1-$0"; cat; exit 7', "a", "b", cwd=tmp_path, stdin="in")
    assert (done.returncode, done.stdout) == (7, "b-a\nin")
    assert "no Python process imported torch" in done.stderr


def test_users_sitecustomize_runs_too(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    script(site, "import sys; sys.users_mark = __file__", "sitecustomize.py")
    script(site, "import sys; sys.users_second = 1", "usercustomize.py")
    code = "import sys, sitecustomize as s; print(sys.users_mark == s.__file__, sys.users_mark)"
    env = environment(PYTHONPATH=str(site))
    done = run("-c", code, cwd=tmp_path, env=env)
    assert done.stdout == run_plain("-c", code, cwd=tmp_path, env=env).stdout
    assert done.stdout.startswith("True ")

    script(site, "raise RuntimeError('broken by its owner')", "sitecustomize.py")
    done = run("-c", "print(1)", cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "broken by its owner" in done.stderr


@pytest.mark.parametrize("odd", ["sys.path[:0] = [None]", "os.path.abspath = None"])
def test_shadowed_sitecustomize_runs_when_ours_fails(tmp_path, odd):
    site = tmp_path / "site"
    site.mkdir()
    script(site, "print('users')", "sitecustomize.py")
    hook = ROOT / "python" / "kinetoscope" / "inject" / "sitecustomize.py"
    code = (
        f"import os, sys; text = open({str(hook)!r}).read(); "
        f"sys.path[:0] = [{str(site)!r}]; {odd}; "
        f"exec(text, {{'__file__': {str(hook)!r}}})"
    )
    done = run_plain("-S", "-c", code, cwd=tmp_path, env=environment(KSCOPE_RUN="1"))
    assert (done.returncode, done.stdout) == (0, "users\n"), done.stderr


@pytest.mark.parametrize("switch", ["-S", "-I", "-E"])
def test_python_that_takes_no_hook(tmp_path, switch):
    done = run(sys.executable, switch, "-c", "print(1)", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "no steps were recorded" in done.stderr


def test_hook_is_inert_without_the_launcher(tmp_path):
    env = environment(PYTHONPATH=str(ROOT / "python" / "kinetoscope" / "inject"))
    code = "import sys; print([type(f).__name__ for f in sys.meta_path if 'Startup' in repr(f)])"
    done = run_plain("-c", code, cwd=tmp_path, env=env)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_package_needs_no_torch(tmp_path):
    code = "import sys, kinetoscope; print(kinetoscope.__version__, 'torch' in sys.modules)"
    done = run_plain("-c", code, cwd=tmp_path, env=environment(PYTHONPATH=str(ROOT / "python")))
    assert done.stdout == "0.1.0 False\n"


# ---------------------------------------------------------------- recording


def test_window_holds_whole_steps(tmp_path):
    done = run(
        train_script(tmp_path, "train(20)"),
        cwd=tmp_path,
        options=("--out", "out", "--steps", "3:2:4"),
    )
    assert done.returncode == 0, done.stderr
    (trace,) = traces(tmp_path / "out")
    (status,) = status_files(tmp_path / "out")
    assert Path(trace).name == f"rank0.pid{status['pid']}.window1.pt.trace.json.gz"

    found = spans(trace)
    steps = [span for span in found if span[0].startswith("ProfilerStep#")]
    assert [name for name, _, _ in steps] == [f"ProfilerStep#{n}" for n in (5, 6, 7, 8)]
    for _, begin, end in steps:
        inside = [name for name, b, e in found if begin <= b and e <= end]
        assert sum("DataLoader" in name and "__next__" in name for name in inside) == 1
        assert sum(name == "Optimizer.step#SGD.step" for name in inside) == 1
        assert sum(name == "aten::linear" for name in inside) == 1
        assert sum(name.startswith("autograd::engine") for name in inside) > 0
        crossing = [n for n, b, e in found if b < begin < e < end or begin < b < end < e]
        assert crossing == []
    assert status["explanation"] is None
    assert status["steps_recorded"] == 4
    assert len(status["unprofiled_step_ns"]) == 1  # the first has no beginning, one is start-up
    # Two steps were recorded for each try of the stacks; the one behind them is not worth timing.
    assert len(status["unprofiled_step_after_ns"]) == 10 - 2 * status["stacks_tries"]
    assert [path for path in os.listdir(tmp_path / "out") if path.endswith(".tmp")] == []


def test_training_is_as_without_us_and_the_result_is_named(tmp_path):
    program = train_script(tmp_path, "train(14); sys.exit(5)")
    done = run(program, cwd=tmp_path, options=FIXED[:3])
    plain = recorded.run_plain(tmp_path, program)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert done.returncode == 5
    (folder,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert folder.name.startswith("kscope-program-")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert done.stderr.splitlines()[-1].endswith(f"kscope report {folder.name}")
    assert len(traces(folder)) == 1


def test_full_folder_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    done = run(fake_program(tmp_path, "write_trace(OUT, pid=ME)"), cwd=tmp_path)
    assert os.listdir(tmp_path / "out") == ["mine"]
    assert len(traces(tmp_path / "out-2")) == 1
    assert "out-2" in done.stderr


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ("os.kill(os.getpid(), 9)", "ended by signal 9"),
        ("os._exit(6)", "exit status 6"),
    ],
)
def test_sudden_end_inside_the_window(tmp_path, last, reason):
    status = "write_status(OUT, pid=ME, state='recording', explanation='It was inside the window.')"
    program = fake_program(tmp_path, f"{status}; {last}")
    done = run(program, cwd=tmp_path)
    assert done.returncode in (-9, 6)
    assert reason in done.stderr
    assert "inside the window" in done.stderr


def test_torch_without_steps(tmp_path):
    done = run("-c", "import torch; print(torch.ones(2).sum().item())", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "2.0\n")
    assert "no optimizer made a step" in done.stderr


def test_programs_own_profiler_goes_first(tmp_path):
    """It starts inside our window, works as ever, and we record another window after it."""
    program = train_script(
        tmp_path,
        """
        from torch.profiler import profile, schedule
        own = profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
                      on_trace_ready=lambda p: p.export_chrome_trace("users.json"))
        def after_step(number):
            if number == 4:
                own.start()
            elif 4 < number < 12:
                own.step()
            elif number == 12:
                own.stop()
        train(40, after_step)
        """,
    )
    ours = run_warm(program, cwd=tmp_path, steps="4:1:6")
    assert ours.returncode == 0, ours.stderr
    users = json.loads((tmp_path / "users.json").read_text())["traceEvents"]
    marks = {e["name"] for e in users if str(e.get("name", "")).startswith("ProfilerStep#")}
    assert marks == {"ProfilerStep#2", "ProfilerStep#3"}
    assert len(traces(tmp_path / "out")) == 1
    assert ours.stdout == recorded.run_plain(tmp_path, program).stdout


def test_programs_own_profiler_all_the_time(tmp_path):
    program = train_script(
        tmp_path,
        """
        with torch.profiler.profile() as own:
            train(20)
        print(len(own.key_averages()) > 0)
        """,
    )
    done = run_warm(program, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.endswith("True\n")
    assert "uses torch.profiler itself" in done.status["explanation"]
    assert traces(tmp_path / "out") == []


def test_loader_workers_beside_an_optimizer(tmp_path):
    """Other ways to start workers are in test_processes_recorded.py."""
    program = script(
        tmp_path,
        TRAIN
        + """
if __name__ == "__main__":
    torch.manual_seed(1)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Noise(), batch_size=4, num_workers=2, multiprocessing_context="fork")
    for number, (x, y) in zip(range(16), loader):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    print("done")
""",
    )
    done = run(program, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert len(traces(tmp_path / "out")) == 1
    assert len(status_files(tmp_path / "out")) == 1


def test_only_the_first_threads_steps_count(tmp_path):
    """Two more threads step optimizers of their own all the time, also while the first one does."""
    program = train_script(
        tmp_path,
        """
        import threading
        is_done = threading.Event()
        def step_on():
            optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(4))])
            while not is_done.is_set():
                optimizer.step()
        threads = [threading.Thread(target=step_on) for _ in range(2)]
        def after_step(number):
            if number == 1:
                [thread.start() for thread in threads]
        sys.setswitchinterval(1e-5)
        train(30, after_step)
        is_done.set()
        [thread.join() for thread in threads]
        """,
    )
    done = run_warm(program, cwd=tmp_path)
    assert (done.returncode, done.stdout.count("\n")) == (0, 30), done.stderr
    (status,) = status_files(tmp_path / "out")
    assert (status["steps_seen"], status["explanation"]) == (30, None)
    (trace,) = traces(tmp_path / "out")
    found = spans(trace)
    steps = [span for span in found if span[0].startswith("ProfilerStep#")]
    assert len(steps) == 6
    for _, begin, end in steps:
        inside = [name for name, b, e in found if begin <= b and e <= end]
        assert sum(name == "Optimizer.step#SGD.step" for name in inside) == 1


@pytest.mark.parametrize(
    "broken",
    [
        "step_counter.StepCounter.is_step_end",
        "step_finder.StepFinder.is_step_end",
        "recorder.Recorder._end_step",
        "recorder.Recorder._keep_time",
        "recorder.Recorder._begin",
        "step_watch._ThreadCalls.depth",
        "module_hooks.ModuleWatcher.begin_search",
        "module_hooks.ModuleWatcher.end",
    ],
)
def test_no_failure_of_ours_reaches_the_program(tmp_path, broken):
    program = train_script(
        tmp_path,
        f"""
        import os
        from kinetoscope.torch import module_hooks, recorder, step_counter, step_finder, step_watch
        class Unspeakable(Exception):
            def __str__(self):
                raise ValueError("no words")
        def fail(*args):
            raise Unspeakable
        {broken} = property(fail) if "depth" in "{broken}" else fail
        train(10)
        if os.fork() == 0:
            train(4)
            os._exit(0)
        print(os.wait()[1])
        """,
    )
    done = run_warm(program, cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0"), done.stderr
    assert "Unspeakable" not in done.stderr


def test_failure_of_ours_is_said(tmp_path):
    program = train_script(
        tmp_path,
        """
        import kinetoscope.torch.step_counter as step_counter
        def fail(*args):
            raise RuntimeError("é" * 600)
        step_counter.StepCounter.is_step_end = fail
        train(10)
        """,
    )
    done = run(program, cwd=tmp_path)  # stderr is decoded strictly: no character is cut in two
    assert (done.returncode, done.stdout.count("\n")) == (0, 10)
    assert "The window was dropped: RuntimeError: ééé" in done.stderr
    (status,) = status_files(tmp_path / "out")
    assert status["state"] == "off"


def test_failing_profiler_drops_the_window_only(tmp_path):
    program = train_script(
        tmp_path,
        """
        def broken(self):
            raise RuntimeError("out of memory, say")
        torch.profiler.profile.start = broken
        train(20)
        """,
    )
    done = run_warm(program, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 20
    assert "The window was dropped: RuntimeError: out of memory, say." in done.status["explanation"]


def test_unwritable_folder_harms_nobody(tmp_path):
    program = train_script(
        tmp_path, "import os, shutil\nshutil.rmtree(os.environ['KSCOPE_OUT'])\ntrain(20)"
    )
    done = run(program, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 20


def test_compiled_optimizer_step_is_traced_as_ever(tmp_path):
    program = script(
        tmp_path,
        """
        import torch
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = torch.compile(lambda: optimizer.step(), backend="eager")
        for _ in range(4):
            model(torch.ones(2, 4)).sum().backward()
            step()
        print(model.weight.sum().item())
        """,
    )
    ours = run_warm(program, cwd=tmp_path)
    plain = recorded.run_plain(tmp_path, program)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout), ours.stderr


# ---------------------------------------------------------------- cost


def test_cost_outside_the_window(tmp_path):
    """Under 1 % of a 20 ms step, that is 200 us; hooks alone take a few."""
    program = script(
        tmp_path,
        """
        import time, torch
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        times = []
        for _ in range(3000):
            begin = time.perf_counter_ns()
            optimizer.step()
            times.append(time.perf_counter_ns() - begin)
        print(sorted(times)[1500])
        """,
    )
    ours, plain = [], []
    for number in range(2):
        (folder := tmp_path / str(number)).mkdir()
        ours.append(int(run_warm(program, cwd=folder, steps="100000:1:1").stdout))
        plain.append(int(recorded.run_plain(folder, program).stdout))
    assert min(ours) - min(plain) < 50_000


def test_example_is_repaired_by_its_switch(tmp_path):
    """The losses of the repaired example are the same, so the two do the same work."""
    example = ROOT / "examples" / "train_images.py"
    slow = recorded.run_plain(tmp_path, example, "--steps", "22").stdout.splitlines()
    fixed = recorded.run_plain(tmp_path, example, "--steps", "22", "--fixed").stdout.splitlines()
    assert slow[:-1] == fixed[:-1]
    assert float(fixed[-1].split()[1]) < float(slow[-1].split()[1])
