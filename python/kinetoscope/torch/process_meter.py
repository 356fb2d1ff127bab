"""What the process and the kernel say of a window, which no event of a trace can tell: threads and
cores, waiting for a core, the limit of the control group, and what the data loader and its workers
used of the CPU. Raw numbers; the report makes sense of them. What cannot be read is left out.
"""

import os
from contextlib import suppress
from threading import get_ident, get_native_id
from time import (
    clock_gettime_ns,
    perf_counter_ns,
    process_time_ns,
    pthread_getcpuclockid,
    thread_time_ns,
)

from kinetoscope.torch.batch_padding import count_tokens

CGROUP_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu")
V1_NAMES = {"throttled_time": 1, "throttled_usec": 1000}


class LoaderMeter:
    """Wall and CPU time of the stepping thread in a DataLoader's __next__, and the workers. Never
    raises: the program is inside of its loader."""

    def __init__(self):
        self._depth = 0  # a dataset may ask another loader
        self.restart()

    def restart(self):
        self.wall_ns = self.cpu_ns = 0
        self.workers = {}  # pid -> what _worker_times said when it was seen first
        self._masks = [0, 0, 0, 0]  # batches, elements, to the longest row, tokens

    def begin(self):
        self._depth += 1
        return perf_counter_ns(), thread_time_ns()

    def end(self, began, iterator):
        self._depth -= 1
        if self._depth == 0:
            self.wall_ns += perf_counter_ns() - began[0]
            self.cpu_ns += thread_time_ns() - began[1]
        with suppress(Exception):  # a worker that is closed has no number
            self._meet_workers(iterator)

    def _meet_workers(self, iterator):
        for worker in getattr(iterator, "_workers", None) or ():
            pid = getattr(worker, "pid", None)
            if pid is not None and pid not in self.workers:
                self.workers[pid] = _worker_times(pid)

    def see(self, batch):
        """Counts the tokens of a batch and what it is padded to; keeps nothing of it."""
        with suppress(Exception):  # a mapping or tensor of another library may do anything
            counts = count_tokens(batch)
            if counts:
                self._masks = [sum(pair) for pair in zip(self._masks, (1, *counts), strict=True)]

    def members(self):
        if not self.wall_ns:
            return {}
        pairs = [(_worker_times(pid), before) for pid, before in self.workers.items()]
        return {
            "loader_ns": self.wall_ns,
            "loader_cpu_ns": self.cpu_ns,
            "workers": len(self.workers),
            "worker_cpu_ns": sum(max(now[0] - before[0], 0) for now, before in pairs),
            "worker_wait_ns": sum(max(now[1] - before[1], 0) for now, before in pairs),
            **self._mask_members(),
        }

    def _mask_members(self):
        names = ("mask_batches", "mask_slots", "mask_longest", "mask_tokens")
        return dict(zip(names, self._masks, strict=True)) if self._masks[0] else {}


class ProcessMeter:
    """From `begin`, in the thread that has the steps, to `members`, which another may call when the
    program ends."""

    def __init__(self, torch):
        self._torch = torch
        self.loader = LoaderMeter()
        self._began_ns = 0

    def begin(self):
        self.loader.restart()
        self._began_ns = 0
        with suppress(Exception):  # a kernel that says something else: the window is what counts
            self._thread = f"self/task/{get_native_id()}"
            self._clock = pthread_getcpuclockid(get_ident())
            self._wait_ns = _wait_ns(self._thread)
            self._throttling = read_throttling()
            self._cpu_ns = process_time_ns()
            self._run_ns = clock_gettime_ns(self._clock)
            self._began_ns = perf_counter_ns()

    def members(self):
        with suppress(Exception):
            return self._members() if self._began_ns else {}
        return {}

    def _members(self):
        members = {
            "threads": self._torch.get_num_threads(),
            "cores": len(os.sched_getaffinity(0)),
            "local_ranks": _local_ranks(),
            "wall_ns": perf_counter_ns() - self._began_ns,
            "cpu_ns": process_time_ns() - self._cpu_ns,
        }
        members.update(self._thread_members())
        now = read_throttling()
        for name in ("periods", "throttled", "throttled_ns"):
            if name in now and name in self._throttling:
                members[name] = max(now[name] - self._throttling[name], 0)
        members.update((name, now[name]) for name in ("quota_us", "period_us") if name in now)
        members.update(self.loader.members())
        return members

    def _thread_members(self):
        wait_ns = _wait_ns(self._thread)
        if self._wait_ns is None or wait_ns is None:
            return {}  # the kernel does not say, or the thread ended
        return {
            "thread_run_ns": clock_gettime_ns(self._clock) - self._run_ns,
            "thread_wait_ns": wait_ns - self._wait_ns,
        }


def read_throttling(roots=CGROUP_ROOTS, table="/proc/self/cgroup"):
    """Limit and counters of the control group, of the first folder that has them."""
    paths = [line.split(":", 2)[2] for line in _text(table).splitlines() if _is_cpu(line)]
    for root in roots:
        for path in (*paths, ""):
            found = _read_group(root + path.rstrip("/"))
            if found:
                return found
    return {}


def _is_cpu(line):
    parts = line.split(":", 2)
    return len(parts) == 3 and (not parts[1] or "cpu" in parts[1].split(","))


def _read_group(folder):
    found = {}
    for line in _text(f"{folder}/cpu.stat").splitlines():
        name, _, number = line.partition(" ")
        if name in ("nr_periods", "nr_throttled"):
            found[name[3:]] = int(number)
        elif name in V1_NAMES:
            found["throttled_ns"] = int(number) * V1_NAMES[name]
    words = _text(f"{folder}/cpu.max").split() or [
        _text(f"{folder}/cpu.cfs_quota_us").strip(),
        _text(f"{folder}/cpu.cfs_period_us").strip(),
    ]
    if found and len(words) == 2 and all(word.isdigit() for word in words):
        found["quota_us"], found["period_us"] = map(int, words)
    return found


def _wait_ns(process):
    """How long a thread, or the first one of a process, could run, and no core was free; None when
    nobody says. How long it ran is beside that, but as of the last tick of the kernel's clock."""
    numbers = _text(f"/proc/{process}/schedstat").split()
    return int(numbers[1]) if len(numbers) == 3 else None


def _worker_times(pid):
    """CPU time of all threads of a process, and how long its first one waited for a core."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0
    return ticks * 10**9 // os.sysconf("SC_CLK_TCK"), _wait_ns(pid) or 0


def _local_ranks():
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"):
        value = os.environ.get(name, "")
        if value.isascii() and value.isdigit():
            return max(int(value), 1)
    return 1


def _text(path):
    try:
        # Names of processes and groups are bytes.
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
