"""The library behind `kscope`, from wherever the extension lies. ImportError says why it is not."""

from kinetoscope import _extension

try:
    from kinetoscope._kscope_engine import (  # noqa: F401 - this module hands them on
        Report,
        TimedCall,
        TraceError,
        Trial,
        advise,
        slope,
        summarize,
        write_comparison,
    )
except ImportError as failure:
    reason = _extension.reason or str(failure)
    message = f"there is no kinetoscope extension for this Python: {reason}"
    raise ImportError(message) from failure
