"""The library behind `kscope`, from wherever the extension lies. ImportError says why it is not."""

from kinetoscope import _extension

try:
    from kinetoscope._kscope_engine import (  # noqa: F401 - this module hands them on
        MemoryCurve,
        Report,
        TimedCall,
        TraceError,
        Trial,
        advise,
        kv_cache_bytes,
        slope,
        summarize,
        write_comparison,
    )
except ImportError as failure:
    reason = _extension.reason or str(failure)
    message = f"there is no kinetoscope extension for this Python: {reason}"
    raise ImportError(message) from failure
