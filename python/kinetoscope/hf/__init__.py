"""Models of transformers; its modules are loaded when they are asked for (docs/transformers.md).
Without transformers what takes a module works for modules of torch alone.

Profilers take a ProfilingConfig or a CodeProfiler as `config`, and give plain dicts. Times are
seconds, sizes bytes; what is not known, and what only a GPU can tell without one, is None.
"""

from kinetoscope._lazy import names_of

PUBLIC = {
    "KinetoscopeCallback": "trainer_callback",
    "TransformersBenchmarker": "benchmarker",
    "TransformersMemoryProfiler": "memory_snapshots",
    "TransformersProfilingHooks": "hooks",
    "benchmark_model_variants": "benchmarker",
    "compare_inference_options": "inference_options",
    "estimate_memory": "memory_estimate",
    "load_model_with_profiling": "loading",
    "profile_diffusion_pipeline": "diffusion",
    "profile_fine_tuning": "fine_tuning",
    "profile_generation": "generation",
    "profile_inference_performance": "inference",
    "profile_peft_fine_tuning": "peft_tuning",
    "profile_pipeline": "pipelines",
    "profile_tokenizer_performance": "tokenizing",
}

__getattr__, __dir__ = names_of(globals(), PUBLIC)
