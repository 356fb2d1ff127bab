"""Goal: a number of the report is the same in SQL. Method: each list of `report --json` is compared
with its fact_ table, column by column, on traces that fill them."""

import functools
import json

import pytest
from query_program import TRACES, documented_tables, report, rows

# Lists of the document; `links` is one object, and `idle` and `phases` are columns of steps.
LISTS = (
    "operators",
    "kernels",
    "steps",
    "devices",
    "streams",
    "copies",
    "copy_sites",
    "syncs",
    "places",
    "findings",
    "inputs",
)


@functools.cache
def report_of(trace):
    return report(TRACES[trace])


def flat(row):
    """The row of a table that a row of JSON should be: a number inside an object is a column."""
    cells, more = {}, {}
    for key, value in row.items():
        if isinstance(value, dict) and key not in ("where", "fix", "counts"):
            cells.update({f"{key}_{inner}": number for inner, number in value.items()})
        elif isinstance(value, dict | list) or key == "verify":
            more[key] = value
        else:
            cells[key] = value
    return cells, more


def compare(json_rows, sql_rows, where):
    assert len(json_rows) == len(sql_rows), where
    for index, (expected, got) in enumerate(zip(json_rows, sql_rows, strict=True)):
        cells, more = flat(expected)
        assert {key: got[key] for key in cells} == cells, (where, index)
        if more:
            assert json.loads(got["more"]) == more, (where, index)


@pytest.mark.parametrize("trace", TRACES)
def test_lists_are_the_same(trace):
    seen = report_of(trace)
    for name in LISTS:
        compare(seen[name], rows(TRACES[trace], f"select * from fact_{name}"), (trace, name))
    compare([seen["links"]], rows(TRACES[trace], "select * from fact_links"), (trace, "links"))


@pytest.mark.parametrize("trace", TRACES)
def test_steps_regrouped_are_the_same(trace):
    for name in ("idle", "phases"):
        for step, row in zip(
            report_of(trace)["steps"],
            rows(TRACES[trace], f"select * from fact_{name}"),
            strict=True,
        ):
            cells, _ = flat(step)
            assert {key: cells[key] for key in row} == row, (trace, name)


def test_the_traces_fill_all_lists():
    """The tests above would pass as well on empty lists."""
    for name in LISTS:
        assert any(report_of(trace)[name] for trace in TRACES), name


def test_operators_by_shape():
    seen = report(TRACES["healthy"], "--group-by", "shape")
    got = rows(TRACES["healthy"], "select * from fact_operators", "--group-by", "shape")
    compare(seen["operators"], got, "operators")
    assert any(row["input_shapes"] for row in got)
    plain = rows(TRACES["healthy"], "select distinct input_shapes from fact_operators")
    assert plain == [{"input_shapes": None}]


@pytest.mark.parametrize("trace", TRACES)
def test_cells_have_the_type_of_their_column(trace):
    """SQLite would hold anything: joins and comparisons go by the declared type."""
    parts = []
    for table, columns in documented_tables().items():
        wrong = " || ".join(
            f"iif(total(typeof(\"{name}\") not in ('null', '{kind.lower()}')), ' {name}', '')"
            for name, kind in columns
        )
        parts.append(f"(select {wrong} from {table}) as {table}")
    (found,) = rows(TRACES[trace], f"select {', '.join(parts)}")
    assert {table: columns for table, columns in found.items() if columns} == {}
