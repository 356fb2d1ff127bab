"""Changes of a program that are measured before they are believed (docs/tuning_python.md).

Its modules are loaded when they are asked for, and torch with them.
"""

from kinetoscope._lazy import names_of

PUBLIC = {
    "FunctionComparison": "function_comparison",
    "SweepResult": "result",
    "TOLERANCES": "agreement",
    "TuneResult": "combination",
    "compare": "function_comparison",
    "largest_batch": "batch_search",
    "sweep_attention": "model_sweeps",
    "sweep_channels_last": "model_sweeps",
    "sweep_checkpointing": "checkpoint_sweep",
    "sweep_compile": "model_sweeps",
    "sweep_dataloader": "loader_sweep",
    "sweep_optimizer": "model_sweeps",
    "sweep_precision": "model_sweeps",
    "sweep_quantization": "model_sweeps",
    "sweep_threads": "model_sweeps",
    "tune_model": "combination",
}

__getattr__, __dir__ = names_of(globals(), PUBLIC)
