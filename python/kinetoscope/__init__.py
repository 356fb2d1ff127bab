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

# Of the library behind `kscope`, and settings: none of them needs torch.
_MODULES = {
    "Comparison": "comparison",
    "PerformanceMonitor": "_monitor",
    "ProfilingConfig": "config",
    "Report": "report",
    "TraceError": "_engine",
    "create_profiling_config": "config",
    "open": "report",
    "start_recording": "_recording",
}

# Of kinetoscope.debug, which loads torch when they are asked for.
_OF_DEBUG = (
    "disable_debugging",
    "enable_debugging",
    "get_debugging_status",
    "profile_model_performance",
)

# These load torch when they are asked for.
_OF_TORCH = (
    "CodeProfiler",
    "DataLoadingProfiler",
    "ModelOptimizer",
    "PyTorchProfiler",
    "TorchMemoryProfiler",
    "TorchProfilingHooks",
    "handler",
    "memory_profile",
    "profile",
    "profile_compilation",
    "profile_device_placement",
)

# Of kinetoscope.tune, which loads torch, too.
_OF_TUNE = (
    "compare",
    "largest_batch",
    "sweep_attention",
    "sweep_channels_last",
    "sweep_checkpointing",
    "sweep_compile",
    "sweep_dataloader",
    "sweep_optimizer",
    "sweep_precision",
    "sweep_quantization",
    "sweep_threads",
    "tune_model",
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
    elif name == "categories":
        import kinetoscope.categories as value
    elif name in _MODULES:
        value = getattr(_module(_MODULES[name]), name)
    elif name in _OF_TORCH:
        value = getattr(_module("torch"), name)
    elif name in _OF_DEBUG:
        value = getattr(_module("debug"), name)
    elif name in _OF_TUNE:
        value = getattr(_module("tune"), name)
    elif name in _PROFILERS:
        value = _of_extension(name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _module(name):
    from importlib import import_module

    return import_module(f"kinetoscope.{name}")


def _of_extension(name):
    from kinetoscope import _extension

    if not hasattr(_extension.extension, name):
        raise ImportError(f"there is no kinetoscope extension for this Python: {_extension.reason}")
    return getattr(_extension.extension, name)


def load_ipython_extension(shell):
    """What `%load_ext kinetoscope` calls: `%kscope PATH` shows a report, `%%kscope` records a cell
    (docs/profiling.md)."""
    _module("magics").load(shell)


def unload_ipython_extension(shell):
    """What `%unload_ext kinetoscope` calls."""
    _module("magics").unload(shell)


def __dir__():
    return sorted(
        {
            *(*globals(), "categories", *_IN_C, *_MODULES, *_OF_DEBUG, *_OF_TORCH, *_OF_TUNE),
            *_PROFILERS,
        }
    )


if os.environ.get("KSCOPE_RUN") == "1" and os.environ.get("KSCOPE_RECORD"):
    try:
        from kinetoscope._recording import start_of_run

        start_of_run()
    except Exception:  # noqa: S110 - the program comes first
        pass
