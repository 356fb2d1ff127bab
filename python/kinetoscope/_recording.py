"""Starts the recording of this process, and sees to those of the processes that it forks."""

import atexit
import os
import sys

from kinetoscope._extension import extension

BYTES_MAX = 2 << 30
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
_WORLD_SIZES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")

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
    """In each process of `kscope run --record regions`. Never raises: the folder has the reason."""
    folder = os.environ["KSCOPE_OUT"]
    try:
        start_recording(folder)
    except Exception as failure:
        _leave_reason(folder, failure)


def _leave_reason(folder, failure):
    try:
        with open(os.path.join(folder, f"regions.pid{os.getpid()}.txt"), "w") as file:
            file.write(f"Regions were not recorded: {failure}\n")
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
        atexit.register(extension.stop_recording)
        os.register_at_fork(after_in_child=_begin_child)
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None:
            _AfterFork().add_finalizer()  # this is such a child, and atexit not for it


def _begin_child():
    """multiprocessing ends its children without atexit, and clears its own list as they begin."""
    global _after_fork
    try:
        util = sys.modules.get("multiprocessing.util")
        if util is not None and extension.is_recording():
            _after_fork = _AfterFork()
            util.register_after_fork(_after_fork, _AfterFork.add_finalizer)
    except Exception:  # noqa: S110 - the program comes first
        pass


class _AfterFork:
    def add_finalizer(self):
        util = sys.modules["multiprocessing.util"]
        util.Finalize(None, _end_child, exitpriority=-100)


def _end_child():
    try:
        path = extension.recording_path() or ""
        if path.endswith(f"-{os.getpid()}.ksrec"):  # it has recorded something
            _note_who()
            extension.stop_recording()
    except Exception:  # noqa: S110 - the program comes first
        pass


def _note_who():
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        extension._note("process", process.current_process().name)
    data = sys.modules.get("torch.utils.data")  # never loads torch
    worker = data.get_worker_info() if data is not None else None
    if worker is not None:
        extension._note("worker", str(worker.id))
