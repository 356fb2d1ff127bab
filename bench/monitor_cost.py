"""What the system monitor costs, beside psutil asked for the same.

Blocks of each alternate in one process, with a thread of their own that looks so many times a
second. A figure is CPU time of that thread by its own clock as a share of one core. psutil is asked
for what the monitor measures and psutil knows, once as often as the monitor looks at each part
("as often"), and once for all of it each time ("all"), with PSS every ten seconds in both: control
groups and pressure it does not know. The monitor writes a recording meanwhile. "nothing" is a
thread that wakes up as often and does nothing, which is the least that any monitor costs.

Judged is the share, less than 0.1 % of a core at 10 Hz, where the machine is quiet: beside other
work every look finds its caches taken.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import psutil  # noqa: E402
from kinetoscope import SystemMonitor, start_recording, stop_recording  # noqa: E402

PERCENT_MAX = 0.1  # at 10 Hz


class PsutilMonitor:
    """A thread that asks psutil for the same values as often."""

    def __init__(self, rate_hz, is_all):
        self.is_all = is_all
        self.interval = 1 / rate_hz
        self.process = psutil.Process()
        self.end = threading.Event()
        self.pss_at = self.slow_at = self.half_at = self.fifth_at = 0.0
        self.latest, self.looks, self.cpu_ns = {}, 0, 0

    def is_due(self, name, now, period):
        if now < getattr(self, name) and not self.is_all:
            return False
        setattr(self, name, now + period - self.interval / 20)
        return True

    def look(self):
        now = time.monotonic()
        latest, process = self.latest, self.process
        with process.oneshot():
            latest["cpu"] = process.cpu_times()
            latest["switches"] = process.num_ctx_switches()
            latest["memory"] = process.memory_info()
            if self.is_due("half_at", now, 0.5):
                latest["threads"] = process.num_threads()
                latest["machine"] = psutil.virtual_memory()
        if self.is_due("fifth_at", now, 0.2):
            latest["io"] = process.io_counters()
            latest["cores"] = psutil.cpu_percent(percpu=True)
        if self.is_due("slow_at", now, 1):
            latest["disks"] = psutil.disk_io_counters()
            latest["network"] = psutil.net_io_counters()
        if now >= self.pss_at:
            self.pss_at = now + 10
            latest["pss"] = process.memory_full_info().pss
        self.looks += 1

    def run(self):
        while True:
            self.look()
            if self.end.wait(self.interval):
                break
        self.cpu_ns = time.thread_time_ns()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.thread.join()


def cpu_of_monitor(rate_hz, seconds):
    """Nanoseconds a second and a look; those of the first and the last look are in it."""
    with SystemMonitor(rate_hz) as monitor:
        time.sleep(seconds)
    counts = monitor.counts()
    return counts["cpu_ns"] / seconds, counts["cpu_ns"] / counts["looks"]


def cpu_of_psutil(rate_hz, seconds, is_all):
    with PsutilMonitor(rate_hz, is_all) as monitor:
        time.sleep(seconds)
    return monitor.cpu_ns / seconds, monitor.cpu_ns / monitor.looks


def cpu_of_nothing(rate_hz, seconds):
    looks, used = round(rate_hz * seconds), []

    def run():
        for _ in range(looks):
            time.sleep(1 / rate_hz)
        used.append(time.thread_time_ns())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return used[0] / seconds, used[0] / looks


def is_quiet():
    return os.getloadavg()[0] < os.cpu_count() / 2


def show(name, figures, ours):
    per_second = statistics.median(figure[0] for figure in figures)
    per_look = statistics.median(figure[1] for figure in figures)
    print(f"{name:22}{per_look / 1e3:12.1f}{per_second / 1e7:14.4f}{per_second / ours:10.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="only see that it works")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.rate, arguments.seconds, arguments.blocks = 20, 0.5, 1
    rate, seconds = arguments.rate, arguments.seconds
    blocks = {"kinetoscope": [], "psutil, as often": [], "psutil, all": [], "nothing": []}
    with tempfile.TemporaryDirectory() as folder:
        start_recording(folder)
        for _ in range(arguments.blocks):
            blocks["kinetoscope"].append(cpu_of_monitor(rate, seconds))
            blocks["psutil, as often"].append(cpu_of_psutil(rate, seconds, is_all=False))
            blocks["psutil, all"].append(cpu_of_psutil(rate, seconds, is_all=True))
            blocks["nothing"].append(cpu_of_nothing(rate, seconds))
        stop_recording()
    print(f"CPU of the thread, {rate} Hz, medians of {arguments.blocks} blocks of {seconds:g} s,")
    print(f"in turn; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'':22}{'us a look':>12}{'% of a core':>14}{'ratio':>10}")
    ours = statistics.median(figure[0] for figure in blocks["kinetoscope"])
    for name, figures in blocks.items():
        show(name, figures, ours)
    return int(rate == 10 and ours / 1e7 >= PERCENT_MAX and is_quiet())


if __name__ == "__main__":
    sys.exit(main())
