"""Records windows of the steps of one process.

The hooks tell what the program does; StepFinder says which of that ends a step; here a step moves
the process from phase to phase: it waits, records a window for its times, one more step for the
Python stacks, perhaps waits for another window, and at last only counts and takes some times.
Outside the windows a step costs a few Python calls and two clock reads; every two seconds one of
them writes the status file, so that others see how far the process is. Any failure of ours turns
recording off and leaves the reason in the status file; the program never sees it.
"""

import os
import sys
from time import perf_counter_ns

from kinetoscope.run_status import RunStatus, rank_of_environment
from kinetoscope.torch import compiler_counts
from kinetoscope.torch.explain import explain
from kinetoscope.torch.joint_start import JointStart
from kinetoscope.torch.other_profiler import watch_other_profiler
from kinetoscope.torch.step_finder import INFERENCE
from kinetoscope.torch.step_pace import StepPace
from kinetoscope.torch.step_times import StepTimes
from kinetoscope.torch.step_watch import StepWatch, entry_point, is_worker
from kinetoscope.torch.window import STACKS, TIMES, Window
from kinetoscope.torch.window_spec import AUTO_WAIT_MAX, WindowSpec

ATTEMPTS_MAX = 3
RESTARTS_MAX = 3  # of a process that has its windows already

# Python stacks make a trace larger, by so much or less; a step too large for that has none.
STACKS_GROWTH = 8
# One step tells where time went: when its thread waited for a core for more than this part of it,
# another one is recorded.
WAITED_PART_MAX = 0.1

# Fewer steps between two windows make them one session after the other for CUPTI.
STEPS_APART_MIN = 10

# Phases of a process. OFF is final; DONE only counts.
WAITING, RECORDING, DONE, OFF = "waiting", "recording", "done", "off"


class Recorder(StepWatch):
    """All state of one process; forked children begin anew.

    Any thread may call the hooks, but only the thread that the StepFinder follows has steps: it
    alone changes phases and windows.
    """

    def __init__(self, torch):
        self._torch = torch
        self._asked_spec = self._spec = WindowSpec.from_environment()
        self._out_dir = os.environ["KSCOPE_OUT"]
        self.mark_name = os.environ.get("KSCOPE_STEP_MARK") or None
        self._in_own_call = False
        self._announced_pid = None
        self._begin()

    def _begin(self):
        self._status = RunStatus(self._out_dir, rank_of_environment())
        self._joint_start = JointStart(self._status)
        self._phase = WAITING
        self._window = None
        self._attempts = 0
        self._windows_done = 0
        self._watch(self._torch, self.mark_name)
        self._source = None
        self._restarts_done = 0
        self._waited_count = 0
        self._ended_ns = 0  # when the last step ended; 0: the next step is not worth timing
        self._times = StepTimes()
        self._pace = StepPace()
        self._is_other_profiling = False
        self._has_met_other = False
        self._traces = []
        self._stack_traces = []
        self._stacks_tries = 0
        self._stacks_waited = 0.0  # part of the step of the kept one
        self._closed_ns = []
        self._ended_by = []
        self._is_over = False
        self._notes = {}

    # ---------------------------------------------------------------- called by the hooks

    @entry_point
    def epoch_ended(self, key):
        if self._finder.epoch_ended(key):
            self._ended_ns = 0  # what lies between two epochs is no time of a step

    @property
    def loader_meter(self):
        """What takes the times of the data loader in the thread that has the steps, while a window
        is open; else None."""
        window = self._window
        is_open = window is not None and self._finder.is_stepping_thread()
        return window.meter.loader if is_open else None

    @entry_point
    def other_profiler_starts(self):
        """The program's own profiler goes first: ours lets go before it begins."""
        if self._in_own_call:
            return
        _call_recording("pause_functions")
        self._is_other_profiling = True
        self._has_met_other = True
        if self._phase is RECORDING and self._finder.is_stepping_thread():
            self._cut_window("the program started a profiler of its own")
        elif self._phase is RECORDING:
            self._turn_off("The program started a profiler of its own in another thread.")

    @entry_point
    def other_profiler_stopped(self):
        if not self._in_own_call:
            self._is_other_profiling = False
            _call_recording("resume_functions")

    @entry_point
    def after_fork(self):
        """In a forked child. A window that the parent has open cannot be used or closed here."""
        was_recording = self._phase is RECORDING
        self._begin()
        if was_recording:
            self._phase = OFF
            # Torch goes on to record what it inherited; this thread at least need not add to it.
            self._torch.autograd._enable_record_function(False)

    @entry_point
    def at_exit(self):
        self._is_over = True
        if self._phase is RECORDING:
            self._cut_window("the program ended")
        if self._finder.step_count > 0 or self._status.pid == self._announced_pid:
            self._report()

    @entry_point
    def install(self):
        """All hooks are there."""
        if self.mark_name is None:
            self.modules.begin()
        watch_other_profiler(self._torch, self.other_profiler_starts, self.other_profiler_stopped)
        self.announce()

    @entry_point
    def announce(self):
        """The first status file: torch is here. Workers of multiprocessing speak once they step."""
        self._announced_pid = None if is_worker() else os.getpid()
        if self._announced_pid is not None:
            self._report()

    # ---------------------------------------------------------------- steps

    @property
    def _is_off(self):
        return self._phase is OFF

    def _is_step_end(self, source, key, dur_ns):
        is_end = super()._is_step_end(source, key, dur_ns)
        if self._finder.source is not self._source:
            self._source = self._finder.source
            if self._source is not INFERENCE:
                self._let_modules_go()
        return is_end

    def _saw_optimizer(self, optimizer):
        if self._finder.step_count == 1:
            self._notes["optimizer"] = type(optimizer).__name__

    def _restart(self, step_count):
        """What counted as a step until now was none: times and an open window are worth nothing."""
        self._ended_ns = 0
        self._times = StepTimes()
        self._pace.forget()
        if self._phase is RECORDING:
            window, self._window = self._window, None
            with self._own_call():
                window.drop()
        elif self._phase is DONE and self._restarts_done >= RESTARTS_MAX:
            return
        self._restarts_done += self._phase is DONE
        self._phase = WAITING
        self._windows_done = 0
        self._waited_count = step_count

    def _end_step(self):
        now = perf_counter_ns()
        if self._phase is RECORDING:
            self._advance_window()
            self._ended_ns = 0
            return
        is_report_due = now >= self._pace.due_ns
        if is_report_due:
            self._pace.note(now, self._finder.step_count)
        if self._ended_ns and not self._is_other_profiling:
            is_report_due |= self._keep_time(now - self._ended_ns)
        if self._phase is WAITING:
            self._wait()
        # A window that has just opened has said so; nothing of ours belongs into its steps.
        if is_report_due and self._phase is not RECORDING:
            began_ns = perf_counter_ns()
            self._report()
            ended_ns = perf_counter_ns()
            self._pace.written(ended_ns, ended_ns - began_ns)
        self._ended_ns = perf_counter_ns()

    def _keep_time(self, dur_ns):
        if self._phase is DONE:
            return self._times.add_after(dur_ns)
        self._times.add_before(dur_ns)
        return False

    def _wait(self):
        if self._finder.step_count == 1:
            self._identify()
        self._waited_count += 1
        if self._is_other_profiling:
            return
        is_over = self._spec.is_wait_over(self._waited_count, self._times)
        if self._spec.wait is None:
            is_over = self._joint_start.is_due(self._finder.step_count, is_over)
        if is_over:
            self._spec = self._fitting_spec()
            self._open_window(TIMES)

    def _fitting_spec(self):
        """Ranks whose calls last unlike must record as many all the same."""
        times_ns = self._times.before_ns
        if self._finder.source is not INFERENCE or not self._joint_start.is_alone or not times_ns:
            return self._asked_spec
        return self._asked_spec.for_calls(sorted(times_ns)[len(times_ns) // 2])

    def _identify(self):
        distributed = getattr(self._torch, "distributed", None)
        if distributed and distributed.is_available() and distributed.is_initialized():
            rank = distributed.get_rank()
            if rank != self._status.rank:
                self._status = RunStatus(self._out_dir, rank)
            self._joint_start = JointStart(self._status, distributed.get_world_size())

    # ---------------------------------------------------------------- the window

    def _open_window(self, purpose):
        spec = self._spec if purpose is TIMES else WindowSpec(1, 1, 1)
        if purpose is STACKS:
            self._stacks_tries += 1
            self._notes["stacks_tries"] = self._stacks_tries
        else:
            self._stacks_tries = 0
            self._attempts += 1
            self._notes["window_first_step"] = self._finder.step_count
        self._phase = RECORDING
        self._report()
        with self._own_call():
            step = self._finder.step_count
            self._window = Window(self._torch, spec, step, purpose, self._is_followed)
            self._window.open()

    def _advance_window(self):
        window = self._window
        if window.purpose is STACKS:
            self._softly(self._advance, window)
        else:
            self._advance(window)

    def _advance(self, window):
        with self._own_call():
            if window.advance(self._describe) is not None:
                self._save(window)
                self._end_window(window)

    def _softly(self, action, *args):
        """Stacks are an addition: without them the run is still a good one."""
        try:
            action(*args)
        except Exception as failure:
            window, self._window = self._window, None
            self._notes["stacks_failure"] = _printable(f"{type(failure).__name__}: {failure}")
            try:
                with self._own_call():
                    window and window.drop()
            except Exception:  # noqa: S110 - it did not work before either
                pass
            self._wait_again_or_rest()

    def _end_window(self, window):
        """The window is saved: what comes next?"""
        self._window = None
        if self._wants_stacks(window):
            self._phase = RECORDING
            self._softly(self._open_window, STACKS)
            return
        if window.purpose is TIMES and self._spec.has_stacks:
            self._notes["stacks_failure"] = "a step with Python stacks would exceed the size limit"
        self._wait_again_or_rest()

    def _is_followed(self, window):
        """Does another session begin at once, or nearly so, when this window ends? Nobody knows
        when a program that has a profiler of its own starts it again."""
        is_last = self._spec.repeat and self._windows_done + 1 >= self._spec.repeat
        wait = AUTO_WAIT_MAX if self._spec.wait is None else self._spec.wait
        is_next_near = not is_last and wait < STEPS_APART_MIN
        return self._has_met_other or self._wants_stacks(window) or is_next_near

    def _wants_stacks(self, window):
        if window.purpose is STACKS:
            return (
                window.waited_part > WAITED_PART_MAX
                and self._stacks_tries < self._spec.stacks_tries
            )
        if not self._spec.has_stacks:
            return False
        bytes_per_step = window.bytes_estimated // max(window.recorded_count, 1)
        return bytes_per_step * STACKS_GROWTH <= self._spec.bytes_max

    def _wait_again_or_rest(self):
        self._windows_done += 1
        self._attempts = 0
        self._waited_count = 0
        is_last = self._spec.repeat and self._windows_done >= self._spec.repeat
        self._phase = DONE if is_last else WAITING
        self._report()

    def _cut_window(self, reason):
        """Ends the window early. What is complete is kept, and the next window may come; nothing at
        all means another try."""
        window = self._window
        with self._own_call():
            window.cut(reason, self._describe)
            if window.recorded_count > 0:
                self._save(window)
        self._window = None
        is_nothing = not window.recorded_count and self._stacks_tries < 2
        if window.purpose is STACKS and not self._is_over and is_nothing:
            self._notes["stacks_failure"] = reason
        if window.purpose is STACKS or window.recorded_count > 0:
            self._wait_again_or_rest()
            return
        self._phase = DONE if self._attempts >= ATTEMPTS_MAX else WAITING
        self._waited_count = 0
        self._report()

    def _save(self, window):
        started_ns = perf_counter_ns()
        is_clean = window.purpose is TIMES
        number = len(self._traces) + is_clean
        kind = "" if is_clean else ".stacks"
        name = f"{self._status.stem}.window{number}{kind}.pt.trace.json.gz"
        if not is_clean:
            self._save_stacks(window, name)
            return
        window.save(os.path.join(self._out_dir, name))
        self._traces.append(name)
        self._closed_ns.append(window.closed_ns)
        self._ended_by.append(window.ended_by)
        self._notes["steps_recorded"] = window.recorded_count
        self._notes["bytes_estimated"] = window.bytes_estimated
        self._notes["save_ns"] = perf_counter_ns() - started_ns
        self._report()

    def _save_stacks(self, window, name):
        """Of several tries the one is kept that had its core most of the time."""
        is_first = name not in self._stack_traces
        if is_first or window.waited_part < self._stacks_waited:
            window.save(os.path.join(self._out_dir, name))
            self._stacks_waited = window.waited_part
        if is_first:
            self._stack_traces.append(name)

    def _describe(self):
        """What the trace says about us: a report reads the times that no profiler slowed down."""
        return {
            "schema": "kinetoscope.window/1",
            "pid": self._status.pid,
            "rank": self._status.rank,
            "window": self._spec.as_members(),
            "step_source": self._finder.source_name,
            "unprofiled_step_ns": self._times.before_ns,
            "compiler": compiler_counts.members(),
        }

    def _own_call(self):
        return _OwnCall(self)

    # ---------------------------------------------------------------- failures and words

    def fail(self, failure):
        """Ends recording because something of ours raised; never raises itself."""
        try:
            words = f"{type(failure).__name__}: {failure}".rstrip(".")
            self._turn_off(f"The window was dropped: {words}.")
        except Exception:
            self._phase = OFF

    def _turn_off(self, reason):
        window, self._window = self._window, None
        self._phase = OFF
        self._notes["failure"] = _printable(reason)
        self._let_modules_go()
        if window is not None:
            try:
                with self._own_call():
                    window.drop()
            except Exception:  # noqa: S110 - it did not work before either
                pass
        try:
            self._report()
        except Exception:  # noqa: S110 - the disk may be full; the program goes on
            pass

    def _report(self):
        self._status.set(
            state=self._phase,
            explanation=self._explain(),
            traces=self._traces,
            stack_traces=self._stack_traces,
            window_closed_ns=self._closed_ns,
            window_ended_by=self._ended_by,
            steps_seen=self._finder.step_count,
            step_source=self._finder.source_name,
            window=self._spec.as_members(),
            torch=str(self._torch.__version__),
            unprofiled_step_ns=self._times.before_ns,
            unprofiled_step_after_ns=self._times.after_ns,
            is_over=self._is_over,
            **self._pace.members(),
            **self._notes,
        )
        self._status.write()

    def _explain(self):
        window = self._window
        is_recording = self._phase is RECORDING and (window is None or window.purpose is TIMES)
        return explain(
            self._spec,
            self._finder,
            self._notes,
            self._ended_by,
            is_recording and not self._is_over,
            self._is_over,
            self._has_met_other,
        )


class _OwnCall:
    """While it lasts, starts and stops of torch.profiler are ours."""

    def __init__(self, recorder):
        self._recorder = recorder

    def __enter__(self):
        self._was_own = self._recorder._in_own_call
        self._recorder._in_own_call = True

    def __exit__(self, *_):
        self._recorder._in_own_call = self._was_own


def _call_recording(name):
    """Where more than windows is recorded, that module is loaded."""
    recording = sys.modules.get("kinetoscope._recording")
    if recording is not None:
        getattr(recording, name)()


def _printable(text):
    return "".join(c if c.isprintable() else " " for c in text[:400])
