"""SweepResult: what a sweep found, variant by variant, and which one to use."""

import html

WIDTH_MAX = 100
VERDICTS = {
    "baseline": "what the others are compared with",
    "faster": "quicker than the baseline beyond noise",
    "slower": "slower than the baseline beyond noise",
    "no_difference": "as quick as the baseline, within the tolerance",
    "cannot_tell": "the times are too noisy to say",
    "rejected": "its results are wrong",
    "not_compared": "those of the model as it is are NaN, or others each time",
    "failed": "it does not run here",
    "left_out": "not timed in full: others were clearly better",
}


class SweepResult:
    """What a sweep gives.

    rows: a dict for each variant, in the order in which they were tried: `label`; `config`; `time`
    (seconds of one run or step, the median) and its `interval` {low, high}; `speedup` over the
    baseline and its `speedup_interval`; `peak_bytes` (parameters, buffers, and what a run adds at
    the most); `verdict` (one of VERDICTS) and `reason`, a sentence; `error`, the largest relative
    error of an output; `rounds`. What is not known is None. A sweep may add columns of its own.

    best: the config to use, that of the baseline when nothing is better; best_row: its row. code:
    lines that do the same in a program.
    """

    def __init__(self, kind, rows, best_row, code=(), notes=()):
        self.kind = kind
        self.rows = rows
        self.best_row = best_row
        self.code = list(code)
        self.notes = list(notes)

    @property
    def best(self):
        return None if self.best_row is None else self.best_row["config"]

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)

    def to_dict(self):
        """All of it in types that JSON has."""
        return {
            "kind": self.kind,
            "rows": [plain(row) for row in self.rows],
            "best": plain(self.best),
            "code": list(self.code),
            "notes": list(self.notes),
        }

    def table(self):
        """As text; the best row has a star."""
        cells = [self._header(), *map(self._cells, self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = [_line(row, widths) for row in cells]
        reasons = [f"  {row['label']}: {row['reason']}" for row in self.rows if row["reason"]]
        return "\n".join([*lines, *reasons, *(f"  {note}" for note in self.notes)])

    def _extras(self):
        return [name for name in _EXTRAS if any(row.get(name) is not None for row in self.rows)]

    def _header(self):
        extras = (_EXTRAS[name][0] for name in self._extras())
        return ["", "variant", "time", "speedup", "from - to", "peak memory", *extras, "verdict"]

    def _cells(self, row):
        extras = self._extras()
        speedup = row["speedup_interval"]
        return [
            "*" if row is self.best_row else "",
            row["label"],
            time_text(row["time"]),
            _text(row["speedup"], "{:.2f}x"),
            "" if speedup is None else f"{speedup['low']:.2f} - {speedup['high']:.2f}",
            bytes_text(row["peak_bytes"]),
            *(_EXTRAS[name][1](row.get(name)) for name in extras),
            row["verdict"],
        ]

    def __str__(self):
        return self.table()

    def __repr__(self):
        label = self.best_row["label"] if self.best_row else None
        return f"<kinetoscope.tune.SweepResult {self.kind}: {len(self.rows)} variants, {label}>"

    def _repr_html_(self):
        """In a notebook: the table and the code."""
        rows = [f"<tr>{_html_cells(self._header(), 'th')}</tr>"]
        rows += [
            f'<tr title="{html.escape(row["reason"] or "")}">{_html_cells(self._cells(row))}</tr>'
            for row in self.rows
        ]
        code = f"<pre>{html.escape(chr(10).join(self.code))}</pre>" if self.code else ""
        return f"<table>{''.join(rows)}</table>{code}"


def _html_cells(cells, tag="td"):
    return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)


def _line(cells, widths):
    left = f"{cells[0]:1} {cells[1]:<{widths[1]}}"
    pairs = zip(cells[2:-1], widths[2:-1], strict=True)
    return "  ".join([left, *(f"{c:>{w}}" for c, w in pairs), cells[-1]]).rstrip()


def plain(value):
    """The same in types that JSON has: a dtype is its name."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value).removeprefix("torch.")


def _text(value, form):
    return "" if value is None else form.format(value)


def time_text(seconds):
    """With a unit in which it has few digits."""
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def bytes_text(count):
    """As above, of bytes."""
    if count is None:
        return ""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def rate_text(value):
    """Of samples in a second."""
    return _text(value, "{:.4g}/s")


_EXTRAS = {
    "samples_per_second": ("samples", rate_text),
    "size_bytes": ("size", bytes_text),
    "bytes_saved": ("saved", bytes_text),
    "bytes_saved_per_ms": ("saved per ms", bytes_text),
    "agreement": ("same choice", lambda value: _text(value, "{:.1%}")),
    "score": ("score", lambda value: _text(value, "{:.4g}")),
}


def empty_row(label, config, verdict, reason=None, **more):
    """A row of which nothing else is known."""
    return {
        "label": label,
        "config": config,
        "time": None,
        "interval": None,
        "speedup": None,
        "speedup_interval": None,
        "peak_bytes": None,
        "verdict": verdict,
        "reason": reason,
        "error": None,
        "rounds": 0,
        **more,
    }


def add_times(row, trial, number, baseline, unit=1e9):
    """Puts into a row what a trial knows of its variant beside that of the baseline."""
    summary, told = trial.summary(number), trial.compare(baseline, number)
    row["time"] = _scaled(summary["median_ns"], unit)
    row["interval"] = _interval(summary["low_ns"], summary["high_ns"], unit)
    row["rounds"] = told["rounds"] if number != baseline else summary["rounds"]
    is_baseline = number == baseline
    row["speedup"] = 1.0 if is_baseline else told["speedup"]
    low, high = (1.0, 1.0) if is_baseline else (told["speedup_low"], told["speedup_high"])
    row["speedup_interval"] = _interval(low, high, 1)
    row["verdict"] = "baseline" if is_baseline else told["verdict"]


def _scaled(value, unit):
    return None if value is None else value / unit


def _interval(low, high, unit):
    return None if low is None or high is None else {"low": low / unit, "high": high / unit}


def choose(rows, trial, numbers, noise=0.02):
    """The row to use: the baseline, unless others are faster beyond noise; of those the quickest,
    or the first one that is as quick for all that is known.

    rows: those that were timed, the baseline first; numbers: theirs in the trial.
    """
    faster = [(row, n) for row, n in zip(rows, numbers, strict=True) if row["verdict"] == "faster"]
    if not faster:
        return rows[0] if rows else None
    best, quickest = min(faster, key=lambda pair: pair[0]["time"])
    for row, number in faster:
        is_near = row["time"] <= best["time"] * (1 + noise)
        if is_near and trial.compare(quickest, number)["verdict"] != "slower":
            return row
    return best
