"""What the engine may have profiled and logged: one switch each, under the names of kinetoscope.

README.md says which part of the engine each one reaches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class ProfilingSwitches:
    """Defaults are those of kinetoscope.ProfilingConfig."""

    # What a recording holds.
    use_torch_profiler: bool = True
    profiler_schedule: Any = "RECORD_AND_SAVE"  # or "WAIT:WARMUP:ACTIVE[:REPEAT]"
    torch_profiler_schedule: Any = None
    torch_profiler_trace_handler: Callable[[Any], Any] | None = None
    record_shapes: bool = True
    profile_memory: bool = True
    with_stack: bool = True
    with_flops: bool = False
    profile_torch_operations: bool = True
    profile_cuda_kernels: bool = True
    profile_memory_allocations: bool = True
    profile_autograd_operations: bool = True
    profile_cuda_memory: bool = True
    profile_cuda_synchronization: bool = True
    profile_gpu_utilization: bool = True

    # Which parts of a training are told apart.
    profile_data_loading: bool = True
    profile_preprocessing: bool = True
    profile_dataloader_performance: bool = True
    profile_model_forward: bool = True
    profile_model_compilation: bool = True
    monitor_cpu: bool = True
    monitor_memory: bool = True
    monitor_gpu: bool = True

    # The same for what transformers adds.
    profile_model_loading: bool = True
    profile_tokenization: bool = True
    profile_inference: bool = True
    profile_fine_tuning: bool = True
    profile_pipeline_operations: bool = True
    profile_device_mapping: bool = True
    profile_model_variants: bool = True
    benchmark_different_sizes: bool = True

    # How the model runs.
    enable_optimizations: bool = True
    use_mixed_precision: bool = True
    mixed_precision_dtype: str = "auto"  # "float16", "bfloat16"
    use_torch_compile: bool = False
    use_channels_last: bool = False
    gradient_checkpointing: bool = False
    optimize_attention: bool = True
    use_device_map: bool = False

    # Where results go.
    save_profiles: bool = True
    output_dir: str = "kinetoscope_profiles"

    # Looking for mistakes.
    enable_autograd_anomaly: bool = False
    enable_autograd_profiler: bool = False
    enable_tensorboard_profiler: bool = False
    debug_memory_usage: bool = False
    debug_gradient_norms: bool = False
    debug_forward_pass: bool = False
    debug_backward_pass: bool = False
    debug_device_placement: bool = False
    debug_mixed_precision: bool = False
    debug_data_loading: bool = False
    debug_validation: bool = False
    debug_early_stopping: bool = False
    debug_lr_scheduling: bool = False

    @property
    def profile_shapes(self) -> bool:
        """The same switch as record_shapes."""
        return self.record_shapes

    @profile_shapes.setter
    def profile_shapes(self, value: bool) -> None:
        self.record_shapes = value

    @property
    def use_compile(self) -> bool:
        """The same switch as use_torch_compile."""
        return self.use_torch_compile

    @use_compile.setter
    def use_compile(self, value: bool) -> None:
        self.use_torch_compile = value
