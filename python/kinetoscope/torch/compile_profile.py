"""profile_compilation: what torch.compile does in a block, and how long it takes."""

from time import perf_counter_ns

import kinetoscope
from kinetoscope.torch import compiler_counts


class profile_compilation:  # noqa: N801 - used as a function in a with statement
    """Counts what torch.compile does in the block. `result` behind it:

        with kinetoscope.profile_compilation("first batch") as compilation:
            compiled(batch)
        print(compilation.result)

    {operation; duration: seconds of the block; compile_time: seconds of it in which functions were
    compiled; functions that were to be compiled and functions_compiled, each time anew; recompiles:
    further times of one function; graphs; graph_breaks; graphs_skipped by CUDA graphs;
    graph_break_reason: of the most frequent one, recompile_reason: of the last one; None without
    any}. What this torch does not count is None: it has changed that often. The block is a region
    of a recording. RuntimeError: it is in use already; exceptions pass.
    """

    def __init__(self, name):
        self.result = None
        self._name = name
        self._region = kinetoscope.profile_operation(name, "compile")
        self._before = None

    def __enter__(self):
        if self._before is not None:
            raise RuntimeError("this profile_compilation is in use")
        self._region.begin()
        self._before = compiler_counts.totals()
        self._began_ns = perf_counter_ns()
        return self

    def __exit__(self, *_):
        duration_s = (perf_counter_ns() - self._began_ns) / 1e9
        before, self._before = self._before, None
        self._region.end()
        found = compiler_counts.since(before)
        self.result = {"operation": self._name, "duration": duration_s, **found}
        return False
