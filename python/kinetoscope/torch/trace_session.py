"""Drives torch.profiler for whole windows of a program and keeps what it wrote: traces in a folder.

`TraceSession` is what PyTorchProfiler, kinetoscope.profile and the training pipeline have in
common. It computes nothing; kinetoscope.open reads the folder.
"""

import contextlib
import gzip
import json
import logging
import os
import shutil
import socket
import time

import torch

LOG = logging.getLogger("kinetoscope")


def make_folder(path):
    """The folder, made and tried. OSError says why nothing can be written into it."""
    path = os.fspath(path)
    os.makedirs(path, exist_ok=True)
    if not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(f"cannot write profiles into {path!r}")
    return path


def is_profiling():
    """Whether this process has a torch profiler running, of whomever."""
    enabled = getattr(torch.autograd, "_profiler_enabled", None)
    return bool(enabled and enabled())


def schedule_of(given):
    """A function from step numbers to ProfilerAction, as torch.profiler takes it.

    `given`: such a function, "W:U:A[:R]", or one action (RECORD_AND_SAVE: all is one window).
    ValueError for something else.
    """
    action = torch.profiler.ProfilerAction
    if callable(given):
        return given
    if isinstance(given, action):
        given = given.name
    if given in ("RECORD_AND_SAVE", "RECORD"):
        return lambda step: action.RECORD
    if given in action.__members__:
        return lambda step: action[given]
    return _schedule_of_text(given)


def _schedule_of_text(text):
    try:
        wait, warmup, active, *repeat = (int(word) for word in text.split(":"))
        return torch.profiler.schedule(
            wait=wait, warmup=warmup, active=active, repeat=repeat[0] if repeat else 0
        )
    except (ValueError, AttributeError, AssertionError):
        raise ValueError(
            f"a schedule is a function, a ProfilerAction or 'WAIT:WARMUP:ACTIVE[:REPEAT]', "
            f"not {text!r}"
        ) from None


class TraceSession:
    """Windows of torch.profiler whose traces lie in `folder`, in the order of `paths`.

    RuntimeError when a profiler runs already: torch has one for a process. `handler` is called with
    the torch.profiler.profile of each window when its trace is written; its export_chrome_trace
    then gives a copy, for torch writes a trace only once.

    What fails between start() and stop(), as a full disk, ends the recording and is logged, so that
    the program's loop goes on; stop() raises it.
    """

    def __init__(self, folder, schedule="RECORD_AND_SAVE", handler=None, suffix="", **options):
        self.folder = make_folder(folder)
        self.paths = []
        self._handler = handler
        self._suffix = suffix
        self._options = options
        self._schedule = schedule_of(schedule)
        self._profiler = None
        self._step_count = 0
        self._failure = None

    def start(self):
        if is_profiling():
            raise RuntimeError("a torch profiler is running already: there is one for a process")
        self._failure = None
        self._profiler = torch.profiler.profile(
            schedule=self._schedule, on_trace_ready=self.save, **self._options
        )
        self._profiler.start()

    def step(self):
        """Ends a step: the next one begins."""
        self._step_count += 1
        if self._profiler is None:
            return
        try:
            self._profiler.step()
        except Exception as failure:
            LOG.warning("Profiling ended: %s: %s", type(failure).__name__, failure)
            self._failure = failure
            self.drop()

    def stop(self):
        """Ends the last window, and raises what failed since start()."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            if self._step_count > 0 and is_profiling():
                # What came behind the last step is none of its own.
                members = {"cut_step": self._step_count}
                profiler.add_metadata_json("kinetoscope", json.dumps(members))
            profiler.stop()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def drop(self):
        """Stops what runs, after a failure; what that raises changes nothing any more."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.on_trace_ready = None
            with contextlib.suppress(Exception):
                profiler.stop()

    def save(self, profiler):
        """Writes the trace of a window, whole or not at all."""
        name = f"{socket.gethostname()}_{os.getpid()}.{time.time_ns()}{self._suffix}"
        path = os.path.join(self.folder, name + ".pt.trace.json")
        try:
            profiler.export_chrome_trace(path + ".tmp")
            os.replace(path + ".tmp", path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path + ".tmp")
        self.paths.append(path)
        if self._handler is None:
            return
        profiler.export_chrome_trace = lambda target: copy_trace(path, target)
        try:
            self._handler(profiler)
        finally:
            del profiler.export_chrome_trace  # the next window has a trace of its own


def copy_trace(source, target):
    """Copies a trace; compressed when the name ends in .gz."""
    target = os.fspath(target)
    with open(source, "rb") as reader:
        with gzip.open(target, "wb", 1) if target.endswith(".gz") else open(target, "wb") as writer:
            shutil.copyfileobj(reader, writer, 1 << 20)


def activities(cpu=True, gpu=True):
    """What this build of torch can record of that, without waking a GPU that nobody uses."""
    activity = torch.profiler.ProfilerActivity
    wanted = set(torch.profiler.supported_activities())
    if not cpu:
        wanted.discard(activity.CPU)
    if not gpu or not torch.cuda.is_initialized():
        wanted &= {activity.CPU}
    return wanted
