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

_IN_EXTENSION = {"FunctionProfiler": "_kscope_functions", "StackSampler": "_kscope_sampler"}

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
    elif name in _IN_EXTENSION:
        value = _of_extension(name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _of_extension(name):
    from kinetoscope._extension import extension

    if hasattr(extension, name):
        return getattr(extension, name)
    import importlib

    try:  # a module of its own, as tests build it for other interpreters
        module = importlib.import_module(f"kinetoscope.{_IN_EXTENSION[name]}")
    except ImportError as failure:
        from kinetoscope._extension import reason

        raise AttributeError(f"{name} needs the extension in C: {reason}") from failure
    return getattr(module, name)


def __dir__():
    return sorted({*globals(), *_IN_C, "start_recording", "categories", *_IN_EXTENSION})


if os.environ.get("KSCOPE_RUN") == "1" and os.environ.get("KSCOPE_RECORD"):
    from kinetoscope._recording import start_of_run

    start_of_run()
