"""Report.compare: two runs beside each other. C computes all of it; here it changes its form."""

import json
import os
from collections.abc import Callable
from typing import Any

from kinetoscope import _engine

Row = dict[str, Any]


class Comparison:
    """What Report.compare gives: A is the earlier run, B the later one. Times are ns, sizes bytes,
    shares 0-1, unknown is None. It outlives both reports; `html` and `query` need that of B open.

    `document`: all of it, as docs/diff.md describes it; the other lists are parts of that.
    """

    def __init__(
        self, compared: Any, html: Callable[[Any], str], query: Callable[[str], Any]
    ) -> None:
        self._compared = compared
        self._html = html
        self._query = query
        self._document: Row | None = None

    @property
    def document(self) -> Row:
        """All of it, as `kscope diff --json` writes it."""
        if self._document is None:
            self._document = json.loads(_engine.write_comparison(self._compared, "json"))
        return self._document

    @property
    def verdict(self) -> Row:
        """`text`, one sentence; `step`: faster, slower, no_difference or cannot_tell; `reason`."""
        return self.document["verdict"]

    @property
    def runs(self) -> list[Row]:
        """A, then B: `path`, `step_count`, `mean_step_ns`, `median_step_ns`, `steps`, ..."""
        return self.document["runs"]

    @property
    def step(self) -> Row:
        """`change_ns` and `ratio` of the mean step, each with `value`, `low`, `high`."""
        return self.document["step"]

    @property
    def recording(self) -> list[Row]:
        """What is not the same about the recordings: `what`, `a`, `b`, `note`."""
        return self.document["recording"]

    @property
    def parts(self) -> list[Row]:
        """What a mean step was spent on: `group`, `name`, `a_ns`, `b_ns`, `change_ns`."""
        return self.document["parts"]

    @property
    def operators(self) -> list[Row]:
        """Operators of a mean step, those that changed most first: `state`, `a`, `b`, `change`."""
        return self.document["operators"]

    @property
    def kernels(self) -> list[Row]:
        """GPU work of a mean step, what changed most first; empty without a GPU."""
        return self.document["kernels"]

    @property
    def memory(self) -> list[Row]:
        """Memory at the peak by device; empty when no run was recorded with it."""
        return self.document["memory"]

    @property
    def findings(self) -> list[Row]:
        """Findings that are gone, new, or still there (`state`), with the savings of both runs."""
        return self.document["findings"]

    def query(self, sql: str) -> Any:
        """Rows of one SELECT over the tables fact_compare_* and those of B (docs/query.md)."""
        return self._query(sql)

    def html(self, path: str | os.PathLike[str]) -> str:
        """Writes the page of B with a view that compares both, as Report.html does."""
        return self._html(path)

    def text(self, limit: int = 10, width: int = 0) -> str:
        """As `kscope diff` shows it. `limit`: rows of each list; `width`: columns of text."""
        return _engine.write_comparison(self._compared, "screen", limit=limit, width=width)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<kinetoscope.Comparison {self.verdict['text']}>"

    def _repr_html_(self) -> str:
        """In a notebook: the text."""
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"
