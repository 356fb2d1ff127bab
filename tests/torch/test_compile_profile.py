"""Goal: what profile_compilation counts is what torch compiled, and its time is in the compiler.
Method: a backend that counts and sleeps; breaks and recompilations that are planted; own clocks."""

import logging
import time

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

NAP_S = 0.05


@pytest.fixture
def backend():
    """Sleeps for each graph, and lists them."""
    torch._dynamo.reset()
    logging.getLogger("torch").setLevel(logging.ERROR)
    graphs = []

    def compile_graph(graph, inputs):
        time.sleep(NAP_S)
        graphs.append(graph)
        return graph.forward

    compile_graph.graphs = graphs
    yield compile_graph
    torch._dynamo.reset()


def broken(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def test_graphs_breaks_and_time(ks, backend):
    compiled = torch.compile(broken, backend=backend)
    with ks.profile_compilation("first") as first:
        began = time.perf_counter()
        compiled(torch.ones(3))
        took = time.perf_counter() - began
    result = first.result
    assert (result["operation"], result["graphs"], result["graph_breaks"]) == ("first", 2, 1)
    assert len(backend.graphs) == 2 and result["functions_compiled"] == 2
    assert 2 * NAP_S <= result["compile_time"] <= took <= result["duration"]
    assert result["recompiles"] == 0 and result["recompile_reason"] is None
    assert "graph_break" in result["graph_break_reason"]
    with ks.profile_compilation("again") as again:
        compiled(torch.ones(3))
    counts = {name: value for name, value in again.result.items() if name != "duration"}
    assert counts.pop("operation") == "again" and not any(counts.values())


def test_recompiles(ks, backend):
    compiled = torch.compile(torch.sin, backend=backend, dynamic=False)
    compiled(torch.ones(3))
    with ks.profile_compilation("sizes") as sizes:
        for length in (3, 4, 5, 4):
            compiled(torch.ones(length))
    assert len(backend.graphs) == 3
    assert (sizes.result["recompiles"], sizes.result["graphs"]) == (2, 2)
    assert "size mismatch" in sizes.result["recompile_reason"]
    assert sizes.result["graph_breaks"] == 0 and sizes.result["graph_break_reason"] is None


def test_it_is_a_region_and_exceptions_pass(ks, tmp_path, backend):
    with ks.profile(tmp_path):
        compilation = ks.profile_compilation("warm up")
        with pytest.raises(KeyError), compilation:
            raise KeyError("planted")
    (region,) = ks.open(tmp_path).regions
    assert (region["name"], region["category"], region["calls"]) == ("warm up", "compile", 1)
    assert compilation.result["graphs"] == 0
    with compilation, pytest.raises(RuntimeError, match="in use"), compilation:
        pass


def test_what_torch_does_not_count_is_unknown(ks, backend, monkeypatch):
    from kinetoscope.torch import compiler_counts

    monkeypatch.setitem(compiler_counts._ASKED, "recompiles", lambda: {}["gone"])
    with ks.profile_compilation("x") as compilation:
        torch.compile(torch.cos, backend=backend)(torch.ones(3))
    assert compilation.result["recompiles"] is None and compilation.result["graphs"] == 1
