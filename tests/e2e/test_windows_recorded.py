"""Goal: windows open and end as asked, are complete files whatever happens, and say what they miss.

Method: tiny training programs with the hook, most of them also without, ended in every way inside
and outside of a window.
"""

import gzip
import signal
import subprocess
import sys
import time

import pytest
from recorded import (
    FRESH,
    Recorded,
    finish,
    run_both,
    run_plain,
    run_recorded,
    start_recorded,
    write_program,
)

TRAIN = """
import os, sys, time
import torch
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps, after_step=lambda number: None):
    for number in range(1, steps + 1):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).pow(2).sum()
        loss.backward()
        optimizer.step()
        print(number, loss.item().hex(), flush=True)
        after_step(number)
"""


# ---------------------------------------------------------------- when it opens, when it ends


def test_window_times_and_stacks_have_files_of_their_own(tmp_path):
    recorded = run_both(tmp_path, TRAIN + "train(40)", steps="4:1:3")
    status = recorded.status
    stem = f"rank0.pid{status['pid']}.window1"
    assert recorded.names() == [
        f"kscope-run.rank0.pid{status['pid']}.status",
        f"{stem}.pt.trace.json.gz",
        f"{stem}.stacks.pt.trace.json.gz",
    ]
    clean, stacks = recorded.clean(), recorded.stacks()
    assert (clean.about["purpose"], stacks.about["purpose"]) == ("times", "stacks")
    assert clean.steps() == [5, 6, 7]
    assert stacks.steps() == [9]  # one more for warming up
    assert clean.category_count("python_function") == 0
    assert stacks.category_count("python_function") > 0
    assert any("program.py" in event["name"] for event in stacks.events)

    assert clean.about["step_source"] == status["step_source"] == "optimizer"
    assert clean.about["unprofiled_step_ns"] == status["unprofiled_step_ns"]
    assert len(status["unprofiled_step_ns"]) == 2  # three were timed, one of them is start-up
    assert len(status["unprofiled_step_after_ns"]) == 20
    assert abs(status["window_closed_ns"][0] - time.time_ns()) < 60e9
    assert (status["state"], status["explanation"], status["is_over"]) == ("done", None, True)
    assert status["window_ended_by"] == ["steps"]


ON_A_SHARED_CORE = """
import subprocess
core = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, [core])
others = []
def share():
    code = f"import os; os.sched_setaffinity(0, [{core}]); print(flush=True)\\nwhile True: pass"
    for _ in range(3):
        command = [sys.executable, "-S", "-c", code]
        others.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        others[-1].stdout.readline()
for step in range(24):
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    train(1)
    if step == 8:
        share()
    if step == 9:
        for other in others:
            other.kill()
            other.wait()
"""


def test_stacks_are_recorded_again_when_others_had_the_core(tmp_path):
    """Three others want the only core while the first step with stacks runs."""
    program = write_program(tmp_path, TRAIN + ON_A_SHARED_CORE)
    recorded = run_recorded(tmp_path, program, steps="4:1:3", stacks="3")
    process = recorded.stacks().about["process"]
    assert recorded.status["stacks_tries"] > 1
    assert recorded.stacks().steps()[0] >= 11  # the first one was 9
    assert process["thread_wait_ns"] < 0.6 * process["wall_ns"]
    assert len(recorded.status["stack_traces"]) == 1


def test_no_stacks(tmp_path):
    program = write_program(tmp_path, TRAIN + "train(12)")
    recorded = run_recorded(tmp_path, program, steps="3:0:2", stacks="0")
    assert recorded.clean().steps() == [3, 4]
    assert recorded.status["stack_traces"] == []
    assert len(recorded.status["unprofiled_step_after_ns"]) == 6


def test_failing_stacks_cost_nothing_else(tmp_path):
    program = write_program(
        tmp_path,
        TRAIN
        + """
make = torch.profiler.profile.__init__
def fail(self, *args, with_stack=False, **more):
    if with_stack:
        raise RuntimeError("no stacks here")
    make(self, *args, **more)
torch.profiler.profile.__init__ = fail
train(30)
""",
    )
    recorded = run_recorded(tmp_path, program)
    status = recorded.status
    assert (recorded.returncode, status["state"], status["explanation"]) == (0, "done", None)
    assert "no stacks here" in status["stacks_failure"]
    assert recorded.clean().steps() == [4, 5, 6]
    assert len(status["unprofiled_step_after_ns"]) == 20


def test_auto_opens_when_steps_agree(tmp_path):
    recorded = run_both(
        tmp_path,
        TRAIN
        + "train(50, lambda number: time.sleep(0.09 if number < 12 and number % 2 else 0.03))",
        steps="auto",
    )
    first = recorded.clean().steps()[0]
    assert 17 <= first < 60  # five times after the eleventh step, later on a busy machine
    assert len(recorded.clean().steps()) == 6
    times = recorded.status["unprofiled_step_ns"][-5:]
    assert max(times) <= 1.1 * min(times)


def test_auto_opens_after_200_steps_that_never_agree(tmp_path):
    program = write_program(
        tmp_path, TRAIN + "train(215, lambda number: time.sleep(0.004 * (number % 2)))"
    )
    recorded = run_recorded(tmp_path, program, steps="auto")
    assert recorded.clean().steps() == [201, 202, 203, 204, 205, 206]


def test_auto_says_that_steps_were_too_few(tmp_path):
    program = write_program(tmp_path, TRAIN + "train(5)")
    recorded = run_recorded(tmp_path, program, steps="auto")
    assert "made 5 optimizer steps" in recorded.status["explanation"]
    assert recorded.status["traces"] == []


def test_repeated_windows(tmp_path):
    recorded = run_both(tmp_path, TRAIN + "train(60)", steps="3:1:2:3")
    assert len(recorded.status["traces"]) == len(recorded.status["stack_traces"]) == 3
    assert [recorded.clean(i).steps() for i in range(3)] == [[4, 5], [12, 13], [20, 21]]
    assert len(recorded.status["window_closed_ns"]) == 3
    assert recorded.status["window_closed_ns"] == sorted(recorded.status["window_closed_ns"])
    assert len(recorded.clean(2).about["unprofiled_step_ns"]) == 3  # two a wait, half is start-up
    assert len(recorded.status["unprofiled_step_after_ns"]) == 20


def test_windows_for_ever(tmp_path):
    program = write_program(tmp_path, TRAIN + "train(26)")
    recorded = run_recorded(tmp_path, program, steps="2:0:1:0", stacks="0")
    assert len(recorded.status["traces"]) == 8
    assert recorded.status["unprofiled_step_after_ns"] == []


def test_window_ends_by_seconds(tmp_path):
    recorded = run_both(
        tmp_path,
        TRAIN + "train(30, lambda number: time.sleep(0.05))",
        steps="3:1:9",
        window_seconds=0.17,
    )
    status = recorded.status
    kept = recorded.clean().steps()
    assert kept == [4, 5, 6][: len(kept)] and 1 <= len(kept) <= 3
    assert status["window_ended_by"] == ["seconds"]
    assert f"holds {len(kept)} of 9 steps: it had lasted 0.17 seconds" in status["explanation"]
    assert recorded.clean().about["ended_by"] == "seconds"
    assert recorded.clean().about["cut_step"] is None


def test_long_step_is_kept_once(tmp_path):
    """Warming up took all the seconds: one step is kept all the same."""
    program = write_program(tmp_path, TRAIN + "train(12, lambda number: time.sleep(0.03))")
    recorded = run_recorded(tmp_path, program, steps="3:1:5", window_seconds=0.01)
    assert recorded.clean().steps() == [4]


def test_window_ends_by_bytes(tmp_path):
    """The limit holds three steps of known size; the estimate is not too low, and not far off."""
    text = TRAIN + (
        "def more(number):\n"
        "    x = torch.ones(2)\n"
        "    for _ in range(2000): x = x * 1.001\n"
        "train(26, more)"
    )
    recorded = run_both(tmp_path, text, steps="3:1:12", window_bytes=30_000_000)
    status = recorded.status
    kept = recorded.clean().steps()
    assert status["window_ended_by"] == ["bytes"]
    assert "30000000 bytes (--max-trace)" in status["explanation"]
    size = len(gzip.open(recorded.out / status["traces"][0]).read())
    assert 2 <= len(kept) <= 3
    assert size <= 30_000_000
    assert size <= status["bytes_estimated"] <= 2 * size
    assert "size limit" in status["stacks_failure"]


# ---------------------------------------------------------------- how the program ends


@pytest.mark.parametrize(
    ("at", "end", "code"),
    [
        (6, "sys.exit(4)", 4),
        (6, "1 / 0", 1),
        (20, "1 / 0", 1),
        (6, "sys.exit(None)", 0),
    ],
)
def test_end_that_python_sees(tmp_path, at, end, code):
    recorded = run_both(tmp_path, TRAIN + f"train(30, lambda number: number == {at} and {end})")
    assert recorded.returncode == code
    assert recorded.status["is_over"] is True
    if at == 6:
        assert recorded.clean().steps() == [4, 5, 6]
        assert recorded.clean().about["cut_step"] == 6
        assert "holds 2 of 3 steps: the program ended" in recorded.status["explanation"]
    else:
        assert recorded.status["explanation"] is None


@pytest.mark.parametrize(
    ("at", "end", "code"),
    [
        (5, "os._exit(6)", 6),
        (5, "os.kill(os.getpid(), 9)", -9),
        (5, "os.kill(os.getpid(), 15)", -15),
        (12, "os._exit(6)", 6),
        (2, "os.kill(os.getpid(), 9)", -9),
    ],
)
def test_end_that_python_does_not_see(tmp_path, at, end, code):
    """What was complete is there, and the file says what the last known state means."""
    recorded = run_both(tmp_path, TRAIN + f"train(30, lambda number: number == {at} and {end})")
    status = recorded.status
    assert recorded.returncode == code
    assert status["is_over"] is False
    if at == 5:
        assert status["traces"] == []
        assert "inside the window" in status["explanation"]
    elif at == 12:
        assert (status["explanation"], recorded.clean().steps()) == (None, [4, 5, 6])
    else:
        assert "made 1 optimizer steps, and the window needs 7" in status["explanation"]
        assert status["traces"] == []


@pytest.mark.parametrize(("at", "kept"), [(6, 2), (15, 3)])
def test_interrupt(tmp_path, at, kept):
    program = write_program(
        tmp_path,
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        + TRAIN
        + f"train(30, lambda number: number == {at} and time.sleep(30))",
    )
    process = start_recorded(tmp_path, program)
    for line in process.stdout:
        if line.startswith(f"{at} "):
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    recorded = Recorded(finish(process), tmp_path / "out")
    assert recorded.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in recorded.stderr
    assert len(recorded.clean().steps()) - (at == 6) == kept  # the open step is there, and named
    assert recorded.status["is_over"] is True


def test_interrupt_while_the_trace_is_written(tmp_path):
    program = write_program(
        tmp_path,
        TRAIN
        + """
from kinetoscope.torch import window
compress, calls = window._compress, []
def interrupted(*args):
    calls.append(1)
    if len(calls) == 1:
        raise KeyboardInterrupt
    compress(*args)
window._compress = interrupted
try:
    train(30)
except KeyboardInterrupt:
    print("interrupted")
""",
    )
    recorded = run_recorded(tmp_path, program)
    assert recorded.stdout.endswith("interrupted\n")
    assert recorded.clean().steps() == [4, 5, 6]
    assert recorded.status["explanation"] is None


def test_own_profiler_in_the_window(tmp_path):
    """It goes first; what was complete is kept, and its trace is as without us."""
    recorded = run_both(
        tmp_path,
        TRAIN
        + """
from torch.profiler import profile, schedule
own = profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
              on_trace_ready=lambda p: print(sorted({e.name for e in p.events()
                                                     if e.name.startswith("ProfilerStep")})))
def after_step(number):
    if number == 5:
        own.start()
    elif 5 < number < 12:
        own.step()
    elif number == 12:
        own.stop()
train(30, after_step)
""",
    )
    assert "2 of 3 steps: the program started a profiler" in recorded.status["explanation"]


@pytest.mark.parametrize(("at", "kept"), [(9, 3), (10, 1)])
def test_own_profiler_in_one_of_several_windows(tmp_path, at, kept):
    """A window without a step is tried again, one with a step counts; the next one comes."""
    program = write_program(
        tmp_path,
        TRAIN
        + f"""
own = torch.profiler.profile()
train(30, lambda number: own.start() if number == {at} else own.stop() if number == 13 else None)
""",
    )
    recorded = run_recorded(tmp_path, program, steps="3:0:3:3", stacks="0")
    status = recorded.status
    assert [name.split(".")[2] for name in status["traces"]] == ["window1", "window2", "window3"]
    assert status["window_ended_by"][::2] == ["steps", "steps"]
    marks = recorded.clean(1).steps()
    assert len(marks) - (recorded.clean(1).about["cut_step"] is not None) == kept
    assert (status["state"], status["explanation"]) == ("done", None)


def test_torch_that_is_never_imported(tmp_path):
    recorded = run_both(
        tmp_path,
        "import sys; print('torch' in sys.modules, 'kinetoscope' in sys.modules)",
        executable=FRESH,
    )
    assert recorded.names() == []


def test_step_function_without_a_run(tmp_path):
    code = "import sys, kinetoscope; kinetoscope.step(); print('torch' in sys.modules)"
    env = {"PYTHONPATH": "python"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
    program = write_program(tmp_path, "import kinetoscope; kinetoscope.step(); print('done')")
    recorded = run_recorded(tmp_path, program, executable=FRESH)
    assert (recorded.stdout, recorded.stderr) == ("done\n", "")
    assert run_plain(tmp_path, "-c", "print('done')", executable=FRESH).stdout == recorded.stdout
