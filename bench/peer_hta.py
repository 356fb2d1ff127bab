"""HolisticTraceAnalysis: load a trace, then the analyses that `kscope report` holds as well."""

import logging
import os
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


def main(path):
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(
        trace_files={0: path}, trace_dir=os.path.dirname(path), include_last_profiler_step=True
    )
    for part in (
        analysis.get_temporal_breakdown,
        analysis.get_gpu_kernel_breakdown,
        analysis.get_comm_comp_overlap,
    ):
        try:
            part(visualize=False)
        except AssertionError:
            # Its rounding makes rows of -1 us; the time until it stops counts all the same.
            print(f"peer_hta: {part.__name__} stopped at its own assertion", file=sys.stderr)


main(os.path.abspath(sys.argv[1]))
