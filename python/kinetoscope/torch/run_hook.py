"""Finds the training steps of a program that knows nothing about us, and records one window.

A step ends where the optimizer's step returns, so that fetching the next batch, forward, backward
and the optimizer all lie inside one step. Outside the window a step costs a few Python calls and
two clock reads. Any failure of ours turns recording off and leaves the reason in the status file;
the program never sees it.
"""

import atexit
import functools
import os
import threading
from importlib import import_module
from time import perf_counter_ns

from kinetoscope.run_status import STEP_TIMES_MAX, RunStatus, rank_of_environment
from kinetoscope.torch.other_profiler import watch_other_profiler
from kinetoscope.torch.step_counter import StepCounter
from kinetoscope.torch.window import Window, WindowSpec

AFTER_TIMES_MAX = 64
ATTEMPTS_MAX = 3

# Phases of a process. OFF is final; DONE only counts.
WAITING, RECORDING, DONE, OFF = "waiting", "recording", "done", "off"


def _entry_point(method):
    """For all that the program's own calls reach: a failure of ours ends here, and turns us off."""

    @functools.wraps(method)
    def guarded(recorder, *args):
        try:
            method(recorder, *args)
        except Exception as failure:
            recorder.fail(failure)

    return guarded


class _ThreadCalls(threading.local):
    """How deep this thread is inside calls of `step`, and whether one of them ended a step."""

    depth = 0
    is_step_over = False


class Recorder:
    """All state of one process; forked children begin anew.

    Any thread may step an optimizer, but only the thread that made the first step has steps: it
    alone changes phases and windows.
    """

    def __init__(self, torch):
        self._torch = torch
        self._spec = WindowSpec.parse(os.environ["KSCOPE_STEPS"])
        self._out_dir = os.environ["KSCOPE_OUT"]
        self._in_own_call = False
        self._announced_pid = None
        self._begin()

    def _begin(self):
        self._status = RunStatus(self._out_dir, rank_of_environment())
        self._phase = WAITING
        self._window = None
        self._window_number = 0
        self._counter = StepCounter()
        self._step_count = 0
        self._steps_to_wait = self._spec.wait
        self._ended_ns = 0  # when the last step ended; 0: the next step is not worth timing
        self._before_ns = []
        self._after_ns = []
        self._thread = None  # the one that made the first step
        self._thread_lock = threading.Lock()
        self._calls = _ThreadCalls()
        self._is_other_profiling = False
        self._has_met_other = False
        self._traces = []
        self._notes = {}

    # ---------------------------------------------------------------- called by the hooks

    @_entry_point
    def optimizer_stepped(self, optimizer):
        """An optimizer has done its work, but its own record_function is still open."""
        if self._phase is OFF or not self._is_stepping_thread():
            return
        if self._counter.is_step_end(optimizer):
            if self._calls.depth > 0:
                self._calls.is_step_over = True  # optimizer_returned ends it
            else:
                self._end_step(optimizer)

    @_entry_point
    def optimizer_called(self):
        self._calls.depth += 1

    @_entry_point
    def optimizer_returned(self, optimizer):
        calls = self._calls
        calls.depth = max(calls.depth - 1, 0)  # a fork inside `step` began anew
        if calls.is_step_over and calls.depth == 0:
            calls.is_step_over = False
            if self._phase is not OFF:
                self._end_step(optimizer)

    def _is_stepping_thread(self):
        if self._thread is None:
            with self._thread_lock:  # two threads may make their first step at once
                if self._thread is None:
                    self._thread = threading.get_ident()
        return self._thread == threading.get_ident()

    @_entry_point
    def other_profiler_starts(self):
        """The program's own profiler goes first: ours lets go before it begins."""
        if self._in_own_call:
            return
        self._is_other_profiling = True
        self._has_met_other = True
        if self._phase is RECORDING and self._thread == threading.get_ident():
            self._cut_window("the program started a profiler of its own")
        elif self._phase is RECORDING:
            self._turn_off("The program started a profiler of its own in another thread.")

    @_entry_point
    def other_profiler_stopped(self):
        if not self._in_own_call:
            self._is_other_profiling = False

    @_entry_point
    def after_fork(self):
        """In a forked child. A window that the parent has open cannot be used or closed here."""
        was_recording = self._phase is RECORDING
        self._begin()
        if was_recording:
            self._phase = OFF

    @_entry_point
    def at_exit(self):
        if self._phase is RECORDING:
            self._cut_window("the program ended")
        if self._step_count > 0 or self._status.pid == self._announced_pid:
            self._report()

    @_entry_point
    def announce(self):
        """The first status file: torch is here. Workers of multiprocessing speak once they step."""
        import multiprocessing  # torch has loaded it already

        process = multiprocessing.current_process()
        is_worker = process.name != "MainProcess" or getattr(process, "_inheriting", False)
        self._announced_pid = None if is_worker else os.getpid()
        if not is_worker:
            self._report()

    # ---------------------------------------------------------------- steps

    def _end_step(self, optimizer):
        now = perf_counter_ns()
        self._step_count += 1
        if self._phase is RECORDING:
            self._advance_window()
            self._ended_ns = 0
            return
        if self._ended_ns:
            self._keep_time(now - self._ended_ns)
        if self._phase is WAITING:
            self._wait(optimizer)
        self._ended_ns = perf_counter_ns()

    def _keep_time(self, dur_ns):
        if self._is_other_profiling:
            return
        times, limit = self._before_ns, STEP_TIMES_MAX
        if self._phase is DONE:
            times, limit = self._after_ns, AFTER_TIMES_MAX
        if len(times) < limit:
            times.append(dur_ns)

    def _wait(self, optimizer):
        if self._step_count == 1:
            self._identify(optimizer)
            self._report()
        if self._steps_to_wait > 1:
            self._steps_to_wait -= 1
        elif not self._is_other_profiling:
            self._open_window()

    def _identify(self, optimizer):
        self._notes["optimizer"] = type(optimizer).__name__
        distributed = getattr(self._torch, "distributed", None)
        if distributed and distributed.is_available() and distributed.is_initialized():
            rank = distributed.get_rank()
            if rank != self._status.rank:
                self._status = RunStatus(self._out_dir, rank)

    # ---------------------------------------------------------------- the window

    def _open_window(self):
        self._window_number += 1
        self._phase = RECORDING
        self._notes["window_first_step"] = self._step_count
        self._report()
        with self._own_call():
            self._window = Window(self._torch, self._spec, self._step_count)
            self._window.open()

    def _advance_window(self):
        with self._own_call():
            if self._window.advance(self._metadata()):
                window, self._window = self._window, None
                self._phase = DONE
                window.close()
                self._save(window, cut_reason=None)

    def _cut_window(self, reason):
        """Ends the window early. What is complete is kept; nothing at all means another try."""
        window, self._window = self._window, None
        self._phase = DONE
        with self._own_call():
            window.close(self._metadata(cut_step=window.open_step))
            if window.recorded_count > 0:
                self._save(window, cut_reason=reason)
            elif self._window_number < ATTEMPTS_MAX:
                self._phase = WAITING
                self._steps_to_wait = self._spec.wait
        self._report()

    def _save(self, window, cut_reason):
        started_ns = perf_counter_ns()
        name = f"{self._status.stem}.window{self._window_number}.pt.trace.json.gz"
        recorded = window.recorded_count
        window.save(os.path.join(self._out_dir, name))
        self._traces.append(name)
        self._notes["steps_recorded"] = recorded
        self._notes["cut_reason"] = cut_reason
        self._notes["save_ns"] = perf_counter_ns() - started_ns
        self._report()

    def _metadata(self, cut_step=None):
        """What the trace says about us: a report reads the times that no profiler slowed down."""
        return {
            "schema": "kinetoscope.window/1",
            "pid": self._status.pid,
            "rank": self._status.rank,
            "window": self._spec.as_members(),
            "cut_step": cut_step,
            "unprofiled_step_ns": list(self._before_ns),
        }

    def _own_call(self):
        return _OwnCall(self)

    # ---------------------------------------------------------------- failures and words

    def fail(self, failure):
        """Ends recording because something of ours raised; never raises itself."""
        try:
            self._turn_off(f"The window was dropped: {type(failure).__name__}: {failure}.")
        except Exception:
            self._phase = OFF

    def _turn_off(self, reason):
        window, self._window = self._window, None
        self._phase = OFF
        self._notes["failure"] = "".join(c if c.isprintable() else " " for c in reason[:400])
        if window is not None:
            try:
                with self._own_call():
                    window.close()
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
            steps_seen=self._step_count,
            window=self._spec.as_members(),
            torch=str(self._torch.__version__),
            unprofiled_step_ns=self._before_ns,
            unprofiled_step_after_ns=self._after_ns,
            **self._notes,
        )
        self._status.write()

    def _explain(self):
        """One sentence why there is no trace, or what is missing in it; None when all is well."""
        if "failure" in self._notes:
            return self._notes["failure"]
        if self._traces:
            cut_reason = self._notes.get("cut_reason")
            if cut_reason is None:
                return None
            kept = self._notes["steps_recorded"]
            return f"The window holds {kept} of {self._spec.active} steps: {cut_reason}."
        if self._phase is RECORDING:
            return (
                f"The program ended after {self._step_count} optimizer steps or more, inside the "
                "window: torch.profiler keeps its events in memory until the window closes."
            )
        if self._has_met_other:
            return (
                "The program uses torch.profiler itself, and only one can run at a time; "
                "`kscope report` reads the trace that the program writes."
            )
        if self._step_count == 0:
            return "torch was imported, but no optimizer made a step."
        return (
            f"The program made {self._step_count} optimizer steps, and the window needs "
            f"{self._spec.step_count}: ask for fewer with --steps WAIT:WARMUP:ACTIVE."
        )


class _OwnCall:
    """While it lasts, starts and stops of torch.profiler are ours."""

    def __init__(self, recorder):
        self._recorder = recorder

    def __enter__(self):
        self._recorder._in_own_call = True

    def __exit__(self, *_):
        self._recorder._in_own_call = False


def install(torch):
    """Hooks optimizers, profilers, fork and exit. Called once, when torch has been imported."""
    recorder = Recorder(torch)
    _hook_optimizers(torch, recorder)
    watch_other_profiler(torch, recorder.other_profiler_starts, recorder.other_profiler_stopped)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.after_fork)
    recorder.announce()
    atexit.register(recorder.at_exit)


def _hook_optimizers(torch, recorder):
    """The global hook says that a step was made, the wrapper when its annotation has ended.

    torch calls the hook inside record_function("Optimizer.step#..."): a step that ended there
    would cut that annotation in two. Each of the two works without the other.
    """
    optimizer_module = import_module("torch.optim.optimizer")  # no attribute of torch.optim
    is_compiling = _is_compiling(torch)
    register = getattr(optimizer_module, "register_optimizer_step_post_hook", None)

    def post_hook(optimizer, args, kwargs):
        if not is_compiling():
            recorder.optimizer_stepped(optimizer)

    if register is not None:
        register(post_hook)

    profile_hook_step = getattr(optimizer_module.Optimizer, "profile_hook_step", None)
    if profile_hook_step is None:
        return

    def profile_hook_step_and_tell(step):
        inner = profile_hook_step(step)

        @functools.wraps(step)  # __wrapped__ is what it is without us
        def outer(optimizer, *args, **kwargs):
            if is_compiling():
                return inner(optimizer, *args, **kwargs)
            recorder.optimizer_called()
            try:
                result = inner(optimizer, *args, **kwargs)
                if register is None:
                    recorder.optimizer_stepped(optimizer)
                return result
            finally:
                recorder.optimizer_returned(optimizer)

        return outer

    optimizer_module.Optimizer.profile_hook_step = staticmethod(profile_hook_step_and_tell)


def _is_compiling(torch):
    """torch.compile traces optimizer steps too; there our hooks must not be."""
    compiler = getattr(torch, "compiler", None)
    return getattr(compiler, "is_compiling", None) or (lambda: False)
