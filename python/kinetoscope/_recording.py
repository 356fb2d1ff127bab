"""Starts the recording of this process, and sees to those of the processes that it forks."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys

from kinetoscope._extension import extension

BYTES_MAX = 2 << 30
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
_WORLD_SIZES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")

# What `kscope run --record` records besides regions, by its word: the name of the type, in the
# order in which they start. The function profiler is the last: it counts none of our own calls.
_SOURCES = {
    "monitor": "SystemMonitor",
    "samples": "StackSampler",
    "functions": "FunctionProfiler",
}

_running = []  # those that were started, as their objects
_is_hooked = False
_after_fork = None  # multiprocessing keeps what it calls only as long as somebody holds this


def start_recording(folder: str | os.PathLike[str], max_bytes: int = BYTES_MAX) -> str:
    """Records what this process does into a new file in `folder`, and returns the file's path.

    The folder is made when it is not there. The file grows to `max_bytes` at most; what comes
    later is counted as lost. Processes that are forked from now on write files of their own beside
    it. While a recording is on nothing changes, and its path is returned.

    Raises OSError when the folder cannot be made, ValueError for a `max_bytes` that is no room,
    RecordingError when the recorder cannot work here.
    """
    if max_bytes < 1 << 20:
        raise ValueError(f"max_bytes must be at least {1 << 20}, not {max_bytes}")
    if not extension.is_recording():
        folder = os.path.abspath(os.fspath(folder))
        os.makedirs(folder, exist_ok=True)
        numbers = (_number_of(names) for names in (_RANKS, _LOCAL_RANKS, _WORLD_SIZES))
        extension._start(folder, min(max_bytes, 1 << 62), *numbers, -1)
        _hook_ends()
    return extension.recording_path()


def start_of_run():
    """In each process of `kscope run --record WORDS`. Never raises: the folder has the reason."""
    words = os.environ["KSCOPE_RECORD"].split(",")
    try:
        start_recording(os.environ["KSCOPE_OUT"])
    except Exception as failure:
        _leave_reason(f"Nothing was recorded: {failure}")
        return
    for word, name in _SOURCES.items():
        if word in words:
            _start_source(word, name)


def _start_source(word, name):
    try:
        source = getattr(extension, name)()
        source.start()
        _running.append(source)
        if hasattr(source, "_lets_go"):
            source._lets_go()  # the program's own goes first
    except Exception as failure:
        _leave_reason(f"Not recorded: {word}: {failure}")


def pause_functions():
    """Before Python 3.12 one profiler sees calls: the one that the program starts goes first."""
    if sys.version_info < (3, 12):
        _functions("stop")


def resume_functions():
    """After pause_functions(). What was running then is not known any more."""
    if sys.version_info < (3, 12):
        _functions("start")


def _functions(action):
    for source in _running:
        if isinstance(source, extension.FunctionProfiler) and source.is_on is (action == "stop"):
            with contextlib.suppress(Exception):
                getattr(source, action)()


def _stop():
    """Ends what this process records. A profiler that another one replaced would warn."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while _running:
            source = _running.pop()
            if source.is_on:
                source.stop()
    extension.stop_recording()


def _leave_reason(reason):
    try:
        name = f"kscope-recording.pid{os.getpid()}.txt"
        with open(os.path.join(os.environ["KSCOPE_OUT"], name), "a", encoding="utf-8") as file:
            file.write(reason + "\n")
    except OSError:
        pass


def _number_of(names):
    for name in names:
        value = os.environ.get(name, "")
        if value.isascii() and value.isdigit() and len(value) < 10:
            return int(value)
    return -1


def _hook_ends():
    global _is_hooked
    if not _is_hooked:
        _is_hooked = True
        atexit.register(_end)
        os.register_at_fork(after_in_child=_begin_child)
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None:
            _AfterFork().begin()  # this is such a child, and atexit not for it
        elif "--multiprocessing-fork" in sys.orig_argv:
            import multiprocessing.util

            _await_process(multiprocessing.util)  # this one will be, by `spawn`


def _await_process(util):
    """multiprocessing clears its list of what ends a process as the process begins."""
    global _after_fork
    _after_fork = _AfterFork()
    util.register_after_fork(_after_fork, _AfterFork.begin)


def _begin_child():
    """multiprocessing ends its children without atexit."""
    try:
        util = sys.modules.get("multiprocessing.util")
        if util is not None and extension.is_recording():
            _await_process(util)
    except Exception:  # noqa: S110 - the program comes first
        pass


def _end():
    try:
        _stop()
    except Exception:  # noqa: S110 - the program comes first
        pass


class _AfterFork:
    """What a process of multiprocessing does when it begins, before its target runs."""

    def begin(self):
        from multiprocessing import process, util

        util.Finalize(None, _end_child, exitpriority=-100)
        _note_who(process.current_process())


def _end_child():
    try:
        path = extension.recording_path() or ""
        if path.endswith(f"-{os.getpid()}.ksrec"):  # it has recorded something
            _stop()
    except Exception:  # noqa: S110 - the program comes first
        pass


def _note_who(process):
    """Now, since it may be killed at any moment."""
    try:
        extension._note("process", process.name)
        worker = _worker_number(process)
        if worker is not None:
            extension._note("worker", str(worker))
    except Exception:  # noqa: S110 - the program comes first
        pass


def _worker_number(process):
    """Of a DataLoader, by the arguments of torch's loop: it tells get_worker_info() later."""
    target = getattr(process, "_target", None)
    if getattr(target, "__module__", None) != "torch.utils.data._utils.worker":
        return None
    names = target.__code__.co_varnames
    return {**dict(zip(names, process._args, strict=False)), **process._kwargs}.get("worker_id")
