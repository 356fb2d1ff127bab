"""What needs torch; its modules are loaded when they are asked for, and torch with them.

`kscope run` loads modules of it by their names, in programs that have imported torch.
"""

from kinetoscope._lazy import names_of

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
    "profile_compilation": "compile_profile",
    "profile_device_placement": "device_placement",
}

__getattr__, __dir__ = names_of(globals(), PUBLIC)
