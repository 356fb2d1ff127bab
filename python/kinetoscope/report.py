"""kinetoscope.open: a report as an object. All of it is computed in C; here it changes its form."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from kinetoscope import _engine
from kinetoscope.comparison import Comparison

_Path = str | os.PathLike[str]
Row = dict[str, Any]


def open(
    path: _Path | Iterable[_Path], *, stacks: Iterable[_Path] = (), by_shape: bool = False
) -> "Report":
    """Reads traces and recordings, analyses them, and gives a Report.

    `path`: a file, a folder, or several of them: of one run (docs/cli.md, `kscope report`).
    `stacks`: recordings of the same program with Python stacks, of which only places are taken.
    `by_shape`: operators are told apart by the shapes of their inputs, too.

    OSError: it cannot be opened; TraceError (a ValueError): it is no trace; ValueError: files of
    several runs.
    """
    single = isinstance(path, str | bytes | os.PathLike)
    return Report([path] if single else list(path), list(stacks), by_shape)


class Rows:
    """Rows of a query. `columns`: their names. Iterates over tuples; `len()`, and `[i]`.

    Integers are exact, unknown values None.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.columns: list[str] = document["columns"]
        self._rows = [tuple(row) for row in document["rows"]]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self._rows[index]

    def __repr__(self) -> str:
        return f"<Rows {self.columns}: {self._rows[:10]}{'...' if len(self) > 10 else ''}>"

    def dicts(self) -> list[Row]:
        """The rows as dictionaries by the names of their columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self._rows]


class Columns:
    """A table of a report by columns, as `Report.columns` gives it: nothing is copied until asked.

    Any library that takes the Arrow PyCapsule interface takes this: `polars.DataFrame(columns)`,
    `pyarrow.table(columns)`, `pandas.DataFrame.from_arrow(columns)`, or its name in a query of
    duckdb.
    """

    def __init__(self, report: "_engine.Report", table: str) -> None:
        self._report = report
        self.table = table
        self.names: list[str] = report.column_names(table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """A capsule with a copy of all rows, which outlives the report. Types are ours: int64,
        float64 and UTF-8; who wants others casts them."""
        return self._report.columns(self.table)

    def __getitem__(self, name: str) -> Any:
        """A column as a numpy array: int64, float64, or objects for texts. Whole numbers of which
        some are unknown are float64; NaN, or None, is unknown. KeyError; ImportError without numpy.
        """
        import numpy

        if name not in self.names:
            raise KeyError(f"no column is called '{name}'")
        values = self._report.column(self.table, name)
        if isinstance(values, list):
            return numpy.array(values, dtype=object)
        kind, data = values
        return numpy.frombuffer(data, dtype=kind)

    def __len__(self) -> int:
        """Number of columns."""
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        """Their names."""
        return iter(self.names)

    def __repr__(self) -> str:
        return f"<Columns of {self.table}: {', '.join(self.names)}>"


class Report:
    """What kinetoscope.open gives. Times are ns, sizes bytes, shares 0-1, unknown is None.

    `document`: the report as docs/report.md describes it; the other lists are parts of that.
    """

    def __init__(
        self, paths: list[_Path], stacks: list[_Path] | None = None, by_shape: bool = False
    ) -> None:
        self._paths = paths
        self._stacks = stacks or []
        self._by_shape = by_shape
        self._open = _engine.Report(paths, stacks=self._stacks, by_shape=by_shape)
        self._document: dict[str, Any] | None = None

    @property
    def document(self) -> dict[str, Any]:
        """All of it, as `kscope report --json` writes it."""
        if self._document is None:
            self._document = json.loads(self._open.write("json"))
        return self._document

    @property
    def verdict(self) -> Row:
        """`text`, one sentence; `bound_by`; `share`."""
        return self.document["verdict"]

    @property
    def steps(self) -> list[Row]:
        """A row a complete step: `dur_ns`, `breakdown_ns`, `phases_ns`, ... What the recording cut,
        as what comes behind the last step() of a profile, only `document` has."""
        return [step for step in self.document["steps"] if step["complete"]]

    @property
    def operators(self) -> list[Row]:
        """A row for each name: `kind`, `calls`, `cpu_ns`, `self_cpu_ns`, `device_ns`, ...

        Labelled regions of a recording are among them, of the kind "region", with `category`.
        """
        return self.document["operators"] + [_as_operator(row) for row in self.regions]

    @property
    def regions(self) -> list[Row]:
        """Labelled regions: `name`, `category`, `calls`, `total_ns`, `self_ns`, ..."""
        return self.document["regions"]

    @property
    def kernels(self) -> list[Row]:
        """GPU work by name; empty without a GPU."""
        return self.document["kernels"]

    @property
    def devices(self) -> list[Row]:
        """GPUs: busy, idle and why; empty without one."""
        return self.document["devices"]

    @property
    def memory(self) -> Row | None:
        """Memory of the devices, where the trace tells of it; else None."""
        return self.document.get("memory")

    @property
    def collectives(self) -> list[Row] | None:
        """Collective operations, with several ranks; else None."""
        return self.document.get("collectives")

    @property
    def findings(self) -> list[Row]:
        """What would make it faster, the most important first: `id`, `title`, `fix`, ..."""
        return self.document["findings"]

    def query(self, sql: str) -> Rows:
        """Rows of one SELECT over the tables of docs/query.md. ValueError: it is none."""
        return Rows(json.loads(self._open.query(sql)))

    def table(
        self, name: str = "operators", sort: str | None = None, limit: int = 20, width: int = 0
    ) -> str:
        """A table as text, as `kscope report --table NAME` shows it. ValueError lists what there
        is. `sort`: a column, or a key of torch's key_averages().table; `width`: columns of text.
        """
        return self._open.write("table", table=name, sort=sort, limit=limit, width=width)

    def export(
        self, path: _Path, format: str, *, table: str | None = None, weight: str = "self_cpu"
    ) -> str:
        """Writes a file for other programs: csv, folded, speedscope, chrome, perfetto, sqlite,
        parquet or arrow (docs/export.md), whole or not at all. Returns its path.

        `table`: which, for csv, parquet and arrow. `weight`: of folded stacks, self_cpu (ns),
        device (ns), functions (ns) or samples. OSError, ValueError.
        """
        return _write_whole(
            path, lambda file: self._open.export(file, format, table=table, weight=weight)
        )

    def html(self, path: _Path) -> str:
        """Writes the report as one page for a browser, which needs nothing else (docs/page.md),
        whole or not at all. Returns its path. OSError; NotImplementedError when kinetoscope was
        built without Node.js.
        """
        return _write_whole(path, self._open.html)

    def compare(self, other: "Report") -> Comparison:
        """This run, B, beside an earlier one, A: step times with an interval, operators, kernels,
        memory and findings (docs/diff.md). `other`: the Report of the earlier run.
        """
        if not isinstance(other, Report):
            raise TypeError(f"compare() takes a Report, not {type(other).__name__}")
        compared = self._open.compare(other._open)
        return Comparison(
            compared,
            lambda path: _write_whole(path, lambda file: self._open.html(file, compared)),
            lambda sql: Rows(json.loads(self._open.query(sql, compared))),
        )

    def columns(self, table: str = "operators") -> Columns:
        """A table of docs/export.md by columns, for numpy and what takes Arrow. ValueError lists
        what there is."""
        return Columns(self._open, table)

    def to_pandas(self, table: str = "operators") -> Any:
        """A table of docs/export.md as a pandas.DataFrame. ImportError without pandas, pyarrow."""
        import pandas  # noqa: F401 - pyarrow would name itself

        return self.to_arrow(table).to_pandas()

    def to_arrow(self, table: str = "operators") -> Any:
        """A table of docs/export.md as a pyarrow.Table. ImportError without pyarrow."""
        import pyarrow

        return pyarrow.table(self.columns(table))

    def by_shape(self) -> "Report":
        """The same traces, with operators told apart by the shapes of their inputs."""
        return self if self._by_shape else Report(self._paths, self._stacks, True)

    def close(self) -> None:
        """Frees what it holds in memory; lists that were asked for stay."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self._open.write("screen")

    def __repr__(self) -> str:
        return f"<kinetoscope.Report {self.verdict['text']}>"

    def _repr_html_(self) -> str:
        """In a notebook: the one screen, as text."""
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def _write_whole(path: _Path, write: Callable[[str], None]) -> str:
    path = os.fspath(path)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return path


def _as_operator(region: Row) -> Row:
    return {
        "name": region["name"],
        "kind": "region",
        "category": region["category"],
        "calls": region["calls"],
        "cpu_ns": region["total_ns"],
        "self_cpu_ns": region["self_ns"],
        "device_ns": None,
        "self_device_ns": None,
    }
