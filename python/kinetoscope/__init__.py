"""Kinetoscope: says where the time of a PyTorch step goes, and what would make it shorter.

Importing this package never imports torch; only `kinetoscope.torch` does, and only when asked.
Nothing is computed in Python: this package hooks PyTorch and hands over what it recorded.
"""

import os

__version__ = "0.1.0"

# Written in C, and loaded when it is asked for: the start-up hook needs none of it.
_IN_C = (
    "RecordingError",
    "counter",
    "is_recording",
    "marker",
    "profile_operation",
    "recording_path",
    "stop_recording",
)

# These cannot be without it; what is above can.
_PROFILERS = ("FunctionProfiler", "StackSampler", "SystemMonitor")

_step = None  # set in a process that `kscope run` watches


def step():
    """Says that a step of the program has ended; `kscope run` then goes by this alone.

    Call it once at the end of each step, always in the same thread. It does nothing when the
    program does not run under `kscope run`, costs well under a microsecond then, and never raises.
    """
    if _step is not None:
        _step()


def __getattr__(name):
    if name in _IN_C:
        from kinetoscope._extension import extension

        value = getattr(extension, name)
    elif name == "start_recording":
        from kinetoscope._recording import start_recording as value
    elif name == "categories":
        import kinetoscope.categories as value
    elif name == "PerformanceMonitor":
        from kinetoscope._monitor import PerformanceMonitor as value
    elif name in _PROFILERS:
        value = _of_extension(name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _of_extension(name):
    from kinetoscope import _extension

    if not hasattr(_extension.extension, name):
        raise ImportError(f"there is no kinetoscope extension for this Python: {_extension.reason}")
    return getattr(_extension.extension, name)


def __dir__():
    others = ("start_recording", "categories", "PerformanceMonitor")
    return sorted({*globals(), *_IN_C, *others, *_PROFILERS})


if os.environ.get("KSCOPE_RUN") == "1" and os.environ.get("KSCOPE_RECORD"):
    try:
        from kinetoscope._recording import start_of_run

        start_of_run()
    except Exception:  # noqa: S110 - the program comes first
        pass
