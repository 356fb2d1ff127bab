"""Programs whose figures the monitor's tests know. Each prints one JSON document.

Use: monitor_programs.py NAME FOLDER
"""

import ctypes
import json
import mmap
import os
import pathlib
import struct
import sys
import threading
import time

import kinetoscope
from kinetoscope import SystemMonitor

MIB = 1 << 20


def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def busy(folder):
    """Two threads, 200 MiB, and 40 MiB written and read back; beside it the same by psutil."""
    import psutil

    process = psutil.Process()
    memory = mmap.mmap(-1, 200 * MIB)
    memory.write(b"x" * (200 * MIB))
    path = os.path.join(folder, "written")
    thread = threading.Thread(target=burn, args=(2.0,))
    cpu, machine, io, start = (
        process.cpu_times(),
        psutil.cpu_times(),
        process.io_counters(),
        time.monotonic(),
    )
    with SystemMonitor(20) as monitor:
        inside = time.monotonic()
        thread.start()
        with open(path, "wb", buffering=0) as file:
            for _ in range(40):
                file.write(b"y" * MIB)
        burn(2.0)
        thread.join()
        rss, threads = process.memory_info().rss, process.num_threads()
        memory_percent = psutil.virtual_memory().percent
        inside = time.monotonic() - inside
    seconds = time.monotonic() - start
    cpu_after, machine_after, io_after = (
        process.cpu_times(),
        psutil.cpu_times(),
        process.io_counters(),
    )
    idle = machine_after.idle + machine_after.iowait - machine.idle - machine.iowait
    # Time of guests is in user's as well.
    everything = sum(machine_after) - sum(machine)
    everything -= machine_after.guest + machine_after.guest_nice - machine.guest
    everything += machine.guest_nice
    return {
        "metrics": monitor.metrics(),
        "psutil": {
            "cpu_s": sum(cpu_after[:2]) - sum(cpu[:2]),
            "cpu.machine": 100 * (1 - idle / everything),
            "memory.rss": rss,
            "memory.machine": memory_percent,
            "cpu.threads": threads,
            "io.write": io_after.write_chars - io.write_chars,
        },
        "seconds": {"monitored": inside, "with_start_and_end": seconds},
    }


def two_recordings(folder):
    """A monitor that was on before, and stays on over the end of a recording."""
    paths = []
    with SystemMonitor(50):
        for _ in range(2):
            paths.append(kinetoscope.start_recording(folder))
            time.sleep(0.3)
            kinetoscope.stop_recording()
            time.sleep(0.1)
    return paths


def write(folder):
    with open(os.path.join(folder, "written"), "wb", buffering=0) as file:
        for _ in range(20):
            file.write(b"y" * MIB)


def last_looks(folder):
    """Two monitors that look once a second, one for half of it; 20 MiB more for the other."""
    times = []
    longer, shorter = SystemMonitor(1), SystemMonitor(1)
    for monitor in (longer, shorter):
        times.append(time.monotonic())
        monitor.start()
        times.append(time.monotonic())
    write(folder)
    time.sleep(0.5)
    for monitor in (shorter, longer):
        times.append(time.monotonic())
        monitor.stop()
        times.append(time.monotonic())
        if monitor is shorter:
            write(folder)
            time.sleep(0.7)
    return {
        "longer": [20 * 2 * MIB, longer.metrics()["io.write"]["mean"]],
        "longer_seconds": [times[6] - times[1], times[7] - times[0]],
        "shorter": [20 * MIB, shorter.metrics()["io.write"]["mean"]],
        "shorter_seconds": [times[4] - times[3], times[5] - times[2]],
    }


def means_of(monitor):
    return {name: metric["mean"] for name, metric in monitor.metrics().items()}


def shared(folder):
    """Two monitors in a row and at once: each answers for its own time."""
    first, second = SystemMonitor(5), SystemMonitor(50)
    first.start()
    first.start()  # does nothing
    burn(0.5)
    second.start()
    rate = second.counts()["rate_hz"]
    time.sleep(0.5)
    first.stop()
    first.stop()
    looks = second.counts()["looks"]
    time.sleep(0.2)
    more = second.counts()["looks"] - looks
    second.stop()
    means = means_of(first)
    with SystemMonitor(0):
        burn(0.1)
    return {
        "kept": means_of(first) == means,
        "rate": rate,
        "more": more,
        "is_on": [first.is_on, second.is_on],
        "first": first.metrics()["cpu.process"]["max"],
        "second": second.metrics()["cpu.process"]["mean"],
        "after": second.look() == second.latest(),
    }


def forked(folder):
    """The child has no monitor, asks the parent's for nothing, starts its own, and ends."""
    kinetoscope.start_recording(folder)
    monitor = SystemMonitor(100)
    monitor.start()
    time.sleep(0.1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        threads = len(os.listdir("/proc/self/task"))
        said = [monitor.is_on, monitor.latest(), monitor.metrics(), monitor.look()]
        monitor.stop()
        own = SystemMonitor(100)
        with own:
            burn(0.7)
        with monitor:
            time.sleep(0.05)
        pid = os.getpid()
        found = [threads, own.metrics()["cpu.threads"]["max"], own.metrics()["cpu.process"]["mean"]]
        os.write(writer, json.dumps([said, found, pid, bool(monitor.latest())]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = json.loads(pipe.read())
    status = os.waitpid(child, 0)[1]
    looks = monitor.counts()["looks"]
    time.sleep(0.1)
    looks = monitor.counts()["looks"] - looks
    monitor.stop()
    return {"child": answer, "status": status, "looks": looks}


def many_forks(folder):
    """Forks in the middle of looks, from a thread that does nothing else."""
    statuses = set()
    with SystemMonitor(100) as monitor:
        for _ in range(100):
            child = os.fork()
            if child == 0:
                with SystemMonitor(0) as own:
                    os._exit(0 if own.latest() and not monitor.is_on else 1)
            statuses.add(os.waitpid(child, 0)[1])
        return {"statuses": sorted(statuses), "looks": monitor.counts()["looks"]}


def crowd(folder):
    """Threads that start, look, ask and stop at will, over one monitor of all and their own."""
    shared, failures = SystemMonitor(0), []
    files = set(os.listdir("/proc/self/fd"))

    def work(number):
        own = SystemMonitor(number * 10)
        try:
            for _ in range(30):
                with own:
                    shared.start()
                    assert own.look()["memory.rss"] > 0
                    shared.look()
                    shared.metrics()
                    shared.stop()
                child = os.fork() if number == 3 else 1
                if child == 0:
                    with own:
                        os._exit(0 if own.look() else 1)
                if number == 3:
                    assert os.waitpid(child, 0)[1] == 0
        except BaseException as failure:
            failures.append(repr(failure))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = [name_of_thread(thread) for thread in os.listdir("/proc/self/task")]
    more = len(os.listdir("/proc/self/fd")) - len(files)
    return {"failures": failures, "left": left, "files": more}


def on_demand(folder):
    """No thread of its own: looks when told to."""
    before = len(os.listdir("/proc/self/task"))
    with SystemMonitor(0) as monitor:
        threads = len(os.listdir("/proc/self/task")) - before
        burn(0.2)
        latest = monitor.look()
        counts = monitor.counts()
    return {"threads": threads, "cpu": latest["cpu.process"], "counts": counts}


def killed(folder):
    """Records until it is killed, or nobody is left to do it; its looks are counted in a file."""
    parent = os.getppid()
    kinetoscope.start_recording(folder)
    with open(os.path.join(folder, f"{os.getpid()}.looks"), "w+b") as file:
        file.write(bytes(8))
        file.flush()
        board = mmap.mmap(file.fileno(), 8)
    with SystemMonitor(100) as monitor:
        print("{}", flush=True)
        while os.getppid() == parent:
            struct.pack_into("<Q", board, 0, monitor.counts()["looks"])


def ends_without_stop(folder):
    """Leaves with the monitor on."""
    kinetoscope.start_recording(folder)
    SystemMonitor(100).start()
    kept = SystemMonitor(100)
    kept.start()
    time.sleep(0.1)
    sys.kept = kept
    return {}


class Gpu(ctypes.Structure):
    """struct stand_in_gpu of tests/support/stand_in_nvml.h."""

    _fields_ = (
        ("mhz", ctypes.c_uint),
        ("reasons", ctypes.c_ulonglong),
        ("celsius", ctypes.c_uint),
        ("busy_percent", ctypes.c_uint),
        ("pids", ctypes.c_uint * 4),
        ("pid_count", ctypes.c_uint),
        ("power_mw", ctypes.c_uint),
        ("memory_bytes", ctypes.c_ulonglong),
        ("energy_mj", ctypes.c_ulonglong),
        ("pcie_kb_s", ctypes.c_uint),
        ("nvlink_kib", ctypes.c_uint),
        ("tensor_percent", ctypes.c_double),
    )


def stand_in_gpus():
    return (Gpu * 2).in_dll(ctypes.CDLL("libnvidia-ml.so.1"), "stand_in_nvml")


def gpus(folder):
    """Two GPUs of a stand-in for the driver, whose second has the more memory in use."""
    first, second = stand_in_gpus()
    first.busy_percent, first.memory_bytes, first.power_mw = 80, 10**9, 300000
    second.busy_percent, second.memory_bytes = 40, 5 * 10**9
    path = kinetoscope.start_recording(folder)
    monitor = kinetoscope.PerformanceMonitor(50)
    with monitor:
        time.sleep(0.7)
        second.memory_bytes = 7 * 10**9
        time.sleep(0.7)
        names = [name_of_thread(thread) for thread in os.listdir("/proc/self/task")]
    kinetoscope.stop_recording()
    kept = monitor.plot_metrics(os.path.join(folder, "gpus.svg"))
    return {
        "summary": monitor.get_summary(),
        "latest": monitor.record_metrics(),
        "threads": sorted(name for name in names if name.startswith("kscope")),
        "recording": path,
        "svg": pathlib.Path(kept).read_text(),
    }


def name_of_thread(thread):
    return pathlib.Path("/proc/self/task", thread, "comm").read_text().strip()


def gpus_to_the_end(folder):
    """Forks and leaves while the driver is being asked."""
    stand_in_gpus()[0].busy_percent = 7
    SystemMonitor(100).start()
    sys.kept = SystemMonitor(100)
    sys.kept.start()
    statuses = set()
    for _ in range(50):
        child = os.fork()
        if child == 0:
            with SystemMonitor(0) as own:
                os._exit(1 if "gpu.busy.0" in own.latest() else 0)
        statuses.add(os.waitpid(child, 0)[1])
    return {"statuses": sorted(statuses), "busy": sys.kept.latest()["gpu.busy.0"]}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2])), flush=True)
