"""Goal: the system monitor's figures are those of the kernel, they come into the recording, and the
program never notices: over forks, kills and ends. Method: monitor_programs.py, whose figures psutil
or the program itself knows; recordings are read by recording.py, without our code.
"""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest
import recording

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).parent
KSCOPE = pathlib.Path(os.environ.get("KSCOPE_BIN", ROOT / "build" / "kscope"))
STAND_IN = KSCOPE.resolve().parent / "tests" / "unit"  # of the driver's library
METRIC, METRICS = 8, 9
KILLS = 1000 if os.environ.get("KSCOPE_TEST_SLOW") else 50


@pytest.fixture
def start(tmp_path):
    def begin(name):
        env = dict(os.environ, PYTHONPATH=f"{ROOT / 'python'}:{HERE}")
        env["PYTHONWARNINGS"] = "ignore::DeprecationWarning"
        if name.startswith("gpus"):
            env["LD_LIBRARY_PATH"] = str(STAND_IN)
        return subprocess.Popen(
            [sys.executable, str(HERE / "monitor_programs.py"), name, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )

    return begin


@pytest.fixture
def run(start):
    def to_its_end(name):
        process = start(name)
        out, err = process.communicate(timeout=100)
        assert (process.returncode, err) == (0, "")
        return json.loads(out)

    return to_its_end


def curves_of(recorded):
    """{(name, index): [(tick, value)]} and {name: unit}; what a value names was said before it."""
    metrics, units, curves = {}, {}, {}
    for kind, payload in recorded.items:
        if kind == METRIC:
            own, name, unit, index = struct.unpack("<IIIi", payload)
            metrics[own] = (recorded.strings[name], index)
            units[recorded.strings[name]] = recorded.strings[unit]
        elif kind == METRICS:
            tick, count, _ = struct.unpack_from("<QII", payload)
            assert len(payload) == 16 + 12 * count
            for own, value in struct.iter_unpack("<Id", payload[16:]):
                curves.setdefault(metrics[own], []).append((tick, value))
    return curves, units


def test_figures_are_psutil_s(run):
    said = run("busy")
    mine, theirs = said["metrics"], said["psutil"]
    # Its start and end take time on a busy machine: rates are over some time between the two.
    seconds = said["seconds"]
    over = theirs["io.write"] / mine["io.write"]["mean"]
    assert seconds["monitored"] * 0.999 <= over <= seconds["with_start_and_end"] * 1.01
    # What start and end take of the CPU comes to that, on two cores at most.
    over = theirs["cpu_s"] / (mine["cpu.process"]["mean"] / 100)
    outside = seconds["with_start_and_end"] - seconds["monitored"]
    assert 0.95 * seconds["monitored"] <= over <= 1.05 * (seconds["monitored"] + 2 * outside)
    assert mine["cpu.machine"]["mean"] == pytest.approx(theirs["cpu.machine"], abs=5)
    assert mine["memory.machine"]["last"] == pytest.approx(theirs["memory.machine"], abs=2)
    assert mine["memory.rss"]["last"] == pytest.approx(theirs["memory.rss"], rel=0.03)
    assert mine["cpu.threads"]["max"] == theirs["cpu.threads"] + 1  # before the other one ended
    # 200 MiB that nobody shares are in both.
    assert mine["memory.pss"]["last"] > 200 << 20
    for metric in mine.values():
        assert metric["min"] <= metric["mean"] * 1.0001 and metric["mean"] <= metric["max"] * 1.0001
        assert metric["min"] >= 0
    cores = [metric for name, metric in mine.items() if name.startswith("cpu.core.")]
    assert len(cores) == os.cpu_count()
    mean = sum(core["mean"] for core in cores) / len(cores)
    assert mean == pytest.approx(mine["cpu.machine"]["mean"], abs=3)


def test_recordings_know_their_metrics(run):
    for path in run("two_recordings"):
        curves, units = curves_of(recording.read(path))
        assert units["cpu.process"] == "percent" and units["memory.rss"] == "bytes"
        assert units["cpu.switches"] == "1/s"
        for curve in curves.values():
            ticks = [tick for tick, _ in curve]
            assert ticks == sorted(ticks)
        # 15 looks at 50 Hz in 0.3 s, less where the machine is busy.
        assert 5 <= len(curves["memory.rss", -1]) <= 17
        assert {index for name, index in curves if name == "cpu.core"} <= set(range(os.cpu_count()))


def test_reader_shows_them_as_counters(run):
    path = run("two_recordings")[0]
    curves, units = curves_of(recording.read(path))
    query = "select name, series, count(*) as count, avg(value) as mean from mark group by 1, 2"
    command = [KSCOPE, "query", path, query, "--json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rows"]
    found = {(name, series): (count, mean) for name, series, count, mean in rows}
    assert len(found) == len(curves)
    for (name, index), curve in curves.items():
        series = units[name] if index < 0 else f"{units[name]} {index}"
        mean = sum(value for _, value in curve) / len(curve)
        assert found[name, series] == (len(curve), pytest.approx(mean))


def test_shared_by_all_that_start_it(run):
    said = run("shared")
    assert said["rate"] == 50
    assert said["more"] >= 2  # the other one is still on
    assert said["is_on"] == [False, False]
    assert said["first"] > 5 * said["second"]  # the second began when it was quiet
    assert said["after"]
    assert said["kept"]  # what the first one measured, when a third has begun


def test_means_are_of_the_whole_time(run):
    """Up to the stop, also of one that others outlive; nothing counts twice for these."""
    said = run("last_looks")
    for name in ("shorter", "longer"):
        written, rate = said[name]
        least, most = said[f"{name}_seconds"]
        assert least * 0.99 <= written / rate <= most * 1.01


def test_child_has_none_and_may_start_its_own(run, tmp_path):
    said = run("forked")
    (is_on, latest, metrics, look), (threads, own_threads, cpu), pid, again = said["child"]
    assert (is_on, latest, metrics, look) == (False, {}, {}, {})
    assert threads == 1
    assert said["status"] == 0
    assert said["looks"] >= 3  # the parent's goes on
    assert own_threads >= 2  # its own; the recorder's, too, by now
    assert cpu > 10
    assert again
    curves, _ = curves_of(recording.read_folder(tmp_path)[pid])
    assert len(curves["memory.rss", -1]) >= 5


def test_forks_in_the_middle_of_looks(run):
    said = run("many_forks")
    assert said["statuses"] == [0]
    assert said["looks"] >= 5


def test_many_threads_at_once(run):
    """The last one to stop ends it, with all of its threads and files; forks in between."""
    said = run("crowd")
    assert said["failures"] == []
    assert not [name for name in said["left"] if name.startswith("kscope-monitor")]
    assert said["files"] == 0


def test_looks_on_demand(run):
    said = run("on_demand")
    assert said["threads"] == 0
    assert said["cpu"] > 10
    assert said["counts"]["looks"] == 2  # the first and ours
    assert said["counts"]["rate_hz"] == 0


def test_kills_leave_what_was_measured(start, tmp_path):
    """The file of each is whole; the look that goes on may be cut off, none before it."""
    random.seed(8)
    seen = 0
    processes = []
    for _ in range(KILLS // 10):
        processes = [start("killed") for _ in range(10)]
        for process in processes:
            process.stdout.readline()
        for process in processes:
            time.sleep(random.uniform(0, 0.02))
            process.kill()
            process.communicate()
    for pid, recorded in recording.read_folder(tmp_path).items():
        (looks,) = struct.unpack("<Q", (tmp_path / f"{pid}.looks").read_bytes())
        curves, _ = curves_of(recorded)
        assert max(looks, 1) <= len(curves.get(("memory.rss", -1), ()))
        seen += 1
    assert seen == KILLS


def test_program_may_end_with_it_on(run, tmp_path):
    run("ends_without_stop")
    (recorded,) = recording.read_folder(tmp_path).values()
    curves, _ = curves_of(recorded)
    assert len(curves["memory.rss", -1]) >= 3


@pytest.fixture
def monitor_type(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    from kinetoscope import SystemMonitor

    return SystemMonitor


def test_wrong_rates_are_refused(monitor_type):
    for rate in (-1, 101, 10**6):
        with pytest.raises(ValueError, match=f"0 to 100, not {rate}"):
            monitor_type(rate)
    with pytest.raises(TypeError):
        monitor_type("10")
    assert monitor_type().rate_hz == 10


def test_another_root(monitor_type, tmp_path):
    """What is not there is absent, and never 0; what is there is read from there."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 25 kB\n")
    with monitor_type(0, root=tmp_path) as monitor:
        time.sleep(0.06)
        latest = monitor.look()
    assert latest["memory.machine"] == 75
    assert latest["memory.available"] == 25 * 1024
    assert "memory.rss" not in latest and "cgroup.memory" not in latest
    assert {name for name in latest if name.startswith("cpu.")} == {
        "cpu.process",
        "cpu.process_system",
        "cpu.switches",
        "cpu.preemptions",
    }


def test_before_it_was_started(monitor_type):
    monitor = monitor_type()
    monitor.stop()
    assert (monitor.latest(), monitor.metrics(), monitor.look()) == ({}, {}, {})
    assert not monitor.is_on


# ------------------------------------------------------------------ GPUs


def test_gpus_of_a_stand_in(run):
    """In GB, of the one that came highest; the recording numbers devices."""
    said = run("gpus")
    summary, latest = said["summary"], said["latest"]
    assert summary["gpu_memory"]["max"] == pytest.approx(7)
    assert 5 < summary["gpu_memory"]["mean"] < 7
    assert summary["gpu"] == {"mean": 80, "max": 80}
    assert (latest["gpu.busy.0"], latest["gpu.busy.1"]) == (80, 40)
    assert latest["gpu.power.0"] == 300
    assert "gpu.power.1" not in latest  # its driver does not say
    assert {"kscope-gpus", "kscope-monitor"} <= set(said["threads"])
    curves, units = curves_of(recording.read(said["recording"]))
    values = [value for _, value in curves["gpu.memory", 1]]
    assert units["gpu.memory"] == "bytes" and units["gpu.power"] == "W"
    assert values[0] == 5 * 10**9 and values[-1] == 7 * 10**9
    assert 4 <= len(values) <= 9  # at most 5 a second
    _, texts, _ = svg_of(said["svg"])
    assert {"GPU busy, %", "GPU memory, GB", "GPU power, W", "GPU 0", "GPU 1"} <= set(texts)


def test_gpus_over_forks_and_the_end(run):
    said = run("gpus_to_the_end")
    assert said["statuses"] == [0]
    assert said["busy"] == 7


# ------------------------------------------------------------------ summaries and pictures


@pytest.fixture
def performance_monitor(monitor_type):
    from kinetoscope import PerformanceMonitor

    return PerformanceMonitor


def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def test_summary_is_of_the_metrics(performance_monitor):
    monitor = performance_monitor(50)
    assert (monitor.get_summary(), monitor.record_metrics()) == ({"gpu_memory": None}, {})
    monitor.start_monitoring()
    burn(0.4)
    latest = monitor.record_metrics()
    monitor.stop_monitoring()
    summary, metrics = monitor.get_summary(), monitor._monitor.metrics()
    parts = {
        "cpu": ("cpu.machine", 1),
        "memory": ("memory.machine", 1),
        "process_cpu": ("cpu.process", 1),
        "process_memory": ("memory.rss", 1e-9),
    }
    assert set(summary) - {"gpu", "gpu_memory"} == set(parts)
    for part, (name, scale) in parts.items():
        for key in ("mean", "max"):
            assert summary[part][key] == pytest.approx(metrics[name][key] * scale)
    assert 0 < summary["memory"]["mean"] <= summary["memory"]["max"] <= 100
    assert 0 < summary["cpu"]["mean"] <= summary["cpu"]["max"] <= 100
    assert 0.005 < summary["process_memory"]["max"] < 100
    assert latest["memory.rss"] > 1 << 20
    assert monitor.record_metrics() == monitor._monitor.latest()


def svg_of(text):
    namespace = "{http://www.w3.org/2000/svg}"
    root = ElementTree.fromstring(text)
    texts = [element.text for element in root.iter(f"{namespace}text")]
    lines = [
        [tuple(map(float, point.split(","))) for point in element.get("points").split()]
        for element in root.iter(f"{namespace}polyline")
    ]
    return root, texts, lines


def test_svg_shows_the_curves(performance_monitor, tmp_path):
    """Each point lies where its time and value say, on axes whose marks and units are there."""
    monitor = performance_monitor(100)
    with monitor:
        burn(0.6)
    path = monitor.plot_metrics(tmp_path / "curves.svg")
    assert path == str(tmp_path / "curves.svg")
    root, texts, lines = svg_of(pathlib.Path(path).read_text())
    height = float(root.get("height"))
    unit, panels = monitor._monitor.panels()
    assert unit == "s" and "time, s" in texts
    titles = [f"{title}, {unit}" for title, unit, _, _ in panels]
    assert titles == [text for text in texts if text in titles]
    assert {"CPU of the process, %", "Memory of the process, MB", "Busy, %"} <= set(titles)
    drawn = iter(lines)
    for _, _, top, curves in panels:
        ticks = sorted({float(text) for text in texts if text.replace(".", "").isdigit()})
        assert any(tick == pytest.approx(top) for tick in ticks)
        for label, times, means, lowest, highest in curves:
            assert label in texts
            if len(times) < 2:
                continue  # a dot
            line = next(drawn)
            assert len(line) == len(times)
            zero, scale = fit(line, means)
            values = zip(line, times, means, lowest, highest, strict=True)
            for (x, y), at, mean, low, high in values:
                assert 0 <= at and low <= mean * 1.0001 and mean <= high * 1.0001 <= top * 1.001
                assert x == pytest.approx(70 + 680 * at / span(monitor), abs=0.2)
                assert y == pytest.approx(zero - scale * mean, abs=0.2)
                assert 0 < y < height
    assert next(drawn, None) is None


def span(monitor):
    """Seconds that the axis of time covers: that of the densest curve, and its end."""
    _, panels = monitor._monitor.panels()
    _, _, lines = svg_of(monitor._monitor.svg())
    times = panels[0][3][0][1]
    return (times[-1] - times[0]) * 680 / (lines[0][-1][0] - lines[0][0][0])


def fit(line, means):
    """Pixel of 0, and pixels of 1; a curve that is level tells its own place only."""
    low, high = min(means), max(means)
    ys = [y for _, y in line]
    if high == low:
        return ys[0] + low, 1
    scale = (max(ys) - min(ys)) / (high - low)
    return min(ys) + scale * high, scale


def test_png_by_matplotlib(performance_monitor, tmp_path):
    with performance_monitor(100) as monitor:
        burn(0.3)
    path = monitor.plot_metrics(tmp_path / "curves.png")
    from matplotlib import image

    picture = image.imread(path)
    assert picture.shape[1] == 1000 and picture.shape[0] > 500
    colours = {tuple(pixel) for row in picture[:, :, :3].round(2) for pixel in row.tolist()}
    assert len(colours) > 100  # lines of several colours, bands, texts


def test_picture_without_matplotlib(performance_monitor, tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with performance_monitor(100) as monitor:
        burn(0.1)
    path = monitor.plot_metrics(tmp_path / "curves.png")
    assert path == str(tmp_path / "curves.svg")
    assert svg_of(pathlib.Path(path).read_text())[2]
    assert not (tmp_path / "curves.png").exists()
    with pytest.raises(OSError, match="nowhere"):
        monitor.plot_metrics(tmp_path / "nowhere" / "curves.svg")


def test_picture_of_nothing(performance_monitor, tmp_path):
    monitor = performance_monitor()
    _, texts, lines = svg_of(monitor._monitor.svg())
    assert texts == ["System monitor: nothing was measured"] and not lines
    assert monitor.plot_metrics(tmp_path / "empty.png") == str(tmp_path / "empty.png")
