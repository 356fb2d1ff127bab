"""PerformanceMonitor: the system monitor under the names that people know, and its pictures.

All of it is measured and put together in C (`SystemMonitor`); here it is handed on, to matplotlib
where the program has it.
"""

import os
from typing import Self

from kinetoscope import SystemMonitor


class PerformanceMonitor:
    """What the machine, the process and its GPUs are at, measured beside the program.

    `rate_hz`: looks a second, 1 to 100; with 0 it measures when record_metrics() is called, and
    needs no thread. ValueError for other rates.
    """

    def __init__(self, rate_hz: int = 10) -> None:
        self._monitor = SystemMonitor(rate_hz)

    def start_monitoring(self) -> None:
        """Starts a new measurement. Does nothing while one goes on. RuntimeError says why not."""
        self._monitor.start()

    def stop_monitoring(self) -> None:
        """Ends the measurement, which can be asked for from now on. Does nothing without one."""
        self._monitor.stop()

    def record_metrics(self) -> dict[str, float]:
        """Measures once more, now, and gives the latest value of each metric (docs/monitor.md).

        While nothing is being measured it gives the last values, {} where there are none.
        """
        return self._monitor.look()

    def get_summary(self) -> dict[str, dict[str, float] | None]:
        """`mean` and `max` of each part: {"cpu": {"mean": 61.3, "max": 98.0}, ...}.

        cpu, memory: of the machine, percent. gpu_memory: GB, and gpu: percent of the time busy, of
        the GPU that came highest, None without one. process_cpu: percent of one core.
        process_memory: GB. What else cannot be known here is absent.
        """
        return {"gpu_memory": None, **self._monitor.summary()}

    def plot_metrics(self, path: str | os.PathLike[str]) -> str:
        """Draws the measurement so far into a picture, and returns its path.

        With matplotlib: in the format that the name says, as .png. A name that ends in .svg needs
        no matplotlib; where it is not installed, every picture is an SVG beside the name, whose
        end becomes .svg. OSError when the file cannot be written.
        """
        path = os.fspath(path)
        stem, end = os.path.splitext(path)
        if end.lower() != ".svg":
            if _plot(self._monitor, path):
                return path
            path = stem + ".svg"
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._monitor.svg())
        return path

    def __enter__(self) -> Self:
        self.start_monitoring()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_monitoring()


def _plot(monitor, path):
    """By matplotlib, without its windows and its state; False: it is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    time_unit, panels = monitor.panels()
    figure = Figure(figsize=(10, 0.8 + 1.7 * max(len(panels), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(max(len(panels), 1), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (title, unit, top, curves) in zip(axes, panels, strict=False):
        for label, times, means, lowest, highest in curves:
            (line,) = axis.plot(times, means, label=label, linewidth=1.2)
            color = line.get_color()
            axis.fill_between(times, lowest, highest, color=color, alpha=0.2, linewidth=0)
        axis.set_title(f"{title}, {unit}", loc="left", fontsize=10)
        axis.set_ylim(0, top * 1.02)
        axis.grid(alpha=0.3)
        axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8, frameon=False)
    axes[-1].set_xlabel(f"time, {time_unit}")
    figure.savefig(path)
    return True
