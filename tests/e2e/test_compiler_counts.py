"""What the recorder says of torch's compiler: its counters, whatever form they have."""

import os
import sys
import types
from collections import Counter

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))

from kinetoscope.torch import compiler_counts  # noqa: E402


def counts_of(monkeypatch, **counters):
    module = types.SimpleNamespace(counters=counters)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", module)
    return compiler_counts.members()


def test_a_program_that_does_not_compile(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert compiler_counts.members() == {}
    assert counts_of(monkeypatch) == {}


def test_breaks_and_skipped_graphs(monkeypatch):
    breaks = Counter({"Call to `print`\n  Hint: none\n\n  Developer debug context: builtin": 3})
    breaks["Dynamic control flow"] = 1
    found = counts_of(
        monkeypatch,
        frames=Counter(total=5, ok=4),
        graph_break=breaks,
        inductor=Counter(cudagraph_skips=2),
        stats=Counter(unique_graphs=6),
    )
    found.pop("recompiles", None)  # counted elsewhere in torch
    assert found == {
        "functions": 5,
        "functions_compiled": 4,
        "graphs": 6,
        "graph_breaks": 4,
        "graphs_skipped": 2,
        "graph_break_reason": "Call to `print`: builtin",
    }


def test_a_function_that_was_given_up(monkeypatch):
    found = counts_of(monkeypatch, frames=Counter(total=1), unimplemented=Counter({"x" * 500: 1}))
    assert (found["functions_compiled"], found["graph_breaks"]) == (0, 0)
    assert found["graph_break_reason"] == "x" * compiler_counts.REASON_LEN_MAX


@pytest.mark.parametrize("counters", [None, 3, {"frames": "many"}, {"frames": {"total": "few"}}])
def test_counters_of_another_form(monkeypatch, counters):
    monkeypatch.setitem(
        sys.modules, "torch._dynamo.utils", types.SimpleNamespace(counters=counters)
    )
    assert compiler_counts.members() == {}
