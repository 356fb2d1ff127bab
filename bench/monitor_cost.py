"""What the system monitor costs, beside psutil asked for the same and beside the least it can cost.

Blocks of each alternate in one process, with a thread of their own that looks so many times a
second. A figure is CPU time of that thread by its own clock as a share of one core, from one second
after its start on: first looks open files and touch memory for the first time. The monitor writes a
recording meanwhile; nobody else does.

psutil is asked for what the monitor measures: once as often as the monitor looks at each part ("as
often"), and once for all of it each time ("all"), with PSS every ten seconds in both. What psutil
does not know, control groups and pressure, its thread reads from the same files as the monitor.
Major faults and the machine's CPU as a whole are left out, in its favour.

"kernel" is a thread of C that reads the monitor's files as often from descriptors that stay open,
and does nothing with them; "waking" one that wakes up as often: what no monitor can go below.

"its GPU driver" is what the monitor's other thread, which asks NVML, takes beside that; psutil
knows no GPUs. Judged is the share of the first row, less than 0.1 % of a core at 10 Hz, where the
machine is quiet: beside other work every look finds its caches taken.

Use: monitor_cost.py [--rate HZ] [--seconds N] [--blocks N] [--tiny]
"""

import argparse
import ctypes
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import psutil  # noqa: E402
from kinetoscope import SystemMonitor, start_recording, stop_recording  # noqa: E402

PERCENT_MAX = 0.1  # at 10 Hz
WARM_SECONDS = 1
ROWS = ("SystemMonitor", "its GPU driver", "psutil, as often", "psutil, all", "kernel", "waking")

# Seconds between two reads of each file, as docs/monitor.md has them. 0: each look.
CORES_PERIOD = 0.5 if os.cpu_count() <= 32 else 1
PERIODS = {
    "self/statm": 0,
    "proc/stat": CORES_PERIOD,
    "self/io": 0.5,
    "self/smaps_rollup": 10,
    "memory.current": 0.5,
    "memory.usage_in_bytes": 0.5,
}
PERIOD_OF_REST = 1


def files_of_monitor():
    """Those that a monitor keeps open here, control groups by their real paths."""
    before = set(os.listdir("/proc/self/fd"))
    with SystemMonitor(0):
        mine = set(os.listdir("/proc/self/fd")) - before
        paths = {link_of(number) for number in mine}
    paths = (path.replace(f"/proc/{os.getpid()}/", "/proc/self/") for path in paths)
    # The folder of threads is not read, and its text only where that folder does not count them.
    left_out = ("/proc/self/stat", "/proc/self/task", "/proc/self/fd")
    return sorted(path for path in paths if path.startswith("/") and path not in left_out)


def link_of(number):
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:  # that by which the folder was listed
        return ""


def period_of(path):
    found = [period for end, period in PERIODS.items() if path.endswith(end)]
    return found[0] if found else PERIOD_OF_REST


class PsutilMonitor:
    """A thread that asks psutil, and files that psutil does not read, for the same as often."""

    def __init__(self, rate_hz, files, is_all):
        self.is_all = is_all
        self.interval = 1 / rate_hz
        self.process = psutil.Process()
        self.end = threading.Event()
        self.due = {}
        others = [path for path in files if path.startswith(("/sys/fs/cgroup", "/proc/pressure"))]
        self.groups = {
            period: [path for path in others if period_of(path) == period] for period in (0.5, 1)
        }
        self.latest, self.looks, self.cpu_ns = {}, 0, 0

    def is_due(self, period, now):
        if now < self.due.get(period, 0) and not (self.is_all and period < 10):
            return False
        self.due[period] = now + period - self.interval / 20
        return True

    def read(self, path):
        """The numbers of the file, by the words before them."""
        with open(path) as file:
            for line in file:
                word, _, number = line.rpartition(" ")
                self.latest[path, word] = number.rpartition("=")[2]

    def look(self):
        now = time.monotonic()
        latest, process = self.latest, self.process
        is_half_due = self.is_due(0.5, now)
        with process.oneshot():
            latest["cpu"] = process.cpu_times()
            latest["switches"] = process.num_ctx_switches()
            latest["memory"] = process.memory_info()
            if is_half_due:
                latest["threads"] = process.num_threads()
        if is_half_due:
            latest["io"] = process.io_counters()
            for path in self.groups[0.5]:
                self.read(path)
        is_slow_due = self.is_due(1, now)
        if is_slow_due or (is_half_due and CORES_PERIOD == 0.5):
            latest["cores"] = psutil.cpu_percent(percpu=True)
        if is_slow_due:
            latest["machine"] = psutil.virtual_memory()
            latest["disks"] = psutil.disk_io_counters()
            latest["network"] = psutil.net_io_counters()
            for path in self.groups[1]:
                self.read(path)
        if self.is_due(10, now):
            latest["pss"] = process.memory_full_info().pss
        self.looks += 1
        self.cpu_ns = time.thread_time_ns()

    def run(self):
        while not self.end.wait(self.interval):
            self.look()

    def counts(self):
        return {"cpu_ns": self.cpu_ns, "looks": self.looks}

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.thread.join()


def cpu_of(monitor, seconds):
    """Nanoseconds a second and a look, and the same of calls of the GPUs' driver."""
    with monitor:
        time.sleep(WARM_SECONDS)
        before = monitor.counts()
        time.sleep(seconds)
        after = monitor.counts()
    looks = after["looks"] - before["looks"]
    used = [after[name] - before[name] for name in ("cpu_ns", "gpu_cpu_ns") if name in after]
    return [(cpu / seconds, cpu / looks) for cpu in used]


class Floor:
    """monitor_floor.c, built and loaded."""

    def __init__(self, folder):
        library = f"{folder}/monitor_floor.so"
        source = str(ROOT / "bench" / "monitor_floor.c")
        gcc = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", source]
        subprocess.run([*gcc, "-o", library], check=True)
        self.run = ctypes.CDLL(library).ks_floor_run
        self.run.restype = ctypes.c_int64

    def cpu(self, rate_hz, seconds, files):
        looks = round(rate_hz * seconds)
        numbers = [os.open(path, os.O_RDONLY) for path in files]
        every = [max(1, round(period_of(path) * rate_hz)) for path in files]
        array = ctypes.c_int * len(files)
        used = []

        def run():
            used.append(self.run(rate_hz, looks, len(files), array(*numbers), array(*every)))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        for number in numbers:
            os.close(number)
        return used[0] / seconds, used[0] / looks


def is_quiet():
    return os.getloadavg()[0] < os.cpu_count() / 2


def measure(rate, seconds, blocks):
    """{row: [(ns a second, ns a look)]}."""
    figures = {name: [] for name in ROWS}
    with tempfile.TemporaryDirectory() as folder:
        floor = Floor(folder)
        files = files_of_monitor()
        start_recording(folder)
        for _ in range(blocks):
            row = (
                *cpu_of(SystemMonitor(rate), seconds),
                *cpu_of(PsutilMonitor(rate, files, is_all=False), seconds),
                *cpu_of(PsutilMonitor(rate, files, is_all=True), seconds),
                floor.cpu(rate, seconds, files),
                floor.cpu(rate, seconds, []),
            )
            for name, figure in zip(ROWS, row, strict=True):
                figures[name].append(figure)
        stop_recording()
    return figures


def show(figures):
    per_second = {
        name: statistics.median(figure[0] for figure in rows) for name, rows in figures.items()
    }
    ours = per_second["SystemMonitor"]
    print(f"{'':18}{'us a look':>10}{'% of a core':>13}{'ratio':>8}")
    for name, rows in figures.items():
        per_look = statistics.median(figure[1] for figure in rows)
        ns = per_second[name]
        print(f"{name:18}{per_look / 1e3:10.1f}{ns / 1e7:13.4f}{ns / ours:8.2f}")
    return ours / 1e7


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--tiny", action="store_true", help="only see that it works")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.rate, arguments.seconds, arguments.blocks = 20, 0.5, 1
    rate, seconds, blocks = arguments.rate, arguments.seconds, arguments.blocks
    figures = measure(rate, seconds, blocks)
    print(f"CPU of the thread, {rate} Hz, medians of {blocks} blocks of {seconds:g} s, in turn;")
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    percent = show(figures)
    return int(rate == 10 and percent >= PERCENT_MAX and is_quiet())


if __name__ == "__main__":
    sys.exit(main())
