"""What needs torch; its modules are loaded when they are asked for, and torch with them.

`kscope run` loads modules of it by their names, in programs that have imported torch.
"""

# Where each public name lies; `kinetoscope` gives them, too.
PUBLIC = {
    "CodeProfiler": "code_profiler",
    "DataLoadingProfiler": "data_loading_profiler",
    "ModelOptimizer": "model_optimizer",
    "PyTorchProfiler": "torch_profiler",
    "TorchMemoryProfiler": "memory_profiler",
    "TorchProfilingHooks": "profiling_hooks",
    "handler": "profile_context",
    "memory_profile": "memory_profiler",
    "profile": "profile_context",
    "profile_device_placement": "device_placement",
}


def __getattr__(name):
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *PUBLIC})
