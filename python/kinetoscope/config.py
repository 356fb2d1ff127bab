"""ProfilingConfig: what CodeProfiler records, as switches with defaults.

Loads nothing but the standard library. docs/profiling.md says what each switch changes.
"""

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_ALIASES = {"profile_shapes": "record_shapes", "use_torch_compile": "use_compile"}


@dataclass
class ProfilingConfig:
    """Switches of CodeProfiler. All can be given by name and set later.

    profiler_schedule: "W:U:A" or "W:U:A:R" (steps to wait, warm up and record, repeats), a function
    from the number of a step to a torch ProfilerAction, or one action for all steps
    (RECORD_AND_SAVE: all of it is one window). torch_profiler_schedule goes before it.
    torch_profiler_trace_handler: called with the torch.profiler.profile of each window.
    output_dir: where reports, plots and traces go, when save_profiles is on.
    """

    use_torch_profiler: bool = True
    profiler_schedule: Any = "RECORD_AND_SAVE"
    record_shapes: bool = True
    profile_memory: bool = True
    with_stack: bool = True
    with_flops: bool = False
    profile_data_loading: bool = True
    profile_preprocessing: bool = True
    profile_model_forward: bool = True
    monitor_cpu: bool = True
    monitor_memory: bool = True
    monitor_gpu: bool = True
    enable_optimizations: bool = True
    use_mixed_precision: bool = True
    use_compile: bool = False
    use_channels_last: bool = False
    gradient_checkpointing: bool = False
    save_profiles: bool = True
    output_dir: str = "kinetoscope_profiles"

    profile_torch_operations: bool = True
    profile_cuda_kernels: bool = True
    profile_memory_allocations: bool = True
    profile_autograd_operations: bool = True
    profile_dataloader_performance: bool = True
    profile_model_compilation: bool = True
    profile_cuda_memory: bool = True
    profile_cuda_synchronization: bool = True
    torch_profiler_trace_handler: Callable[[Any], Any] | None = None
    torch_profiler_schedule: Any = None
    profile_gpu_utilization: bool = True

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

    profile_model_loading: bool = True
    profile_tokenization: bool = True
    profile_inference: bool = True
    profile_fine_tuning: bool = True
    profile_pipeline_operations: bool = True
    profile_device_mapping: bool = True
    profile_model_variants: bool = True
    benchmark_different_sizes: bool = True
    use_device_map: bool = False
    mixed_precision_dtype: str = "auto"
    optimize_attention: bool = True

    @property
    def profile_shapes(self) -> bool:
        """The same switch as record_shapes."""
        return self.record_shapes

    @profile_shapes.setter
    def profile_shapes(self, value: bool) -> None:
        self.record_shapes = value

    @property
    def use_torch_compile(self) -> bool:
        """The same switch as use_compile."""
        return self.use_compile

    @use_torch_compile.setter
    def use_torch_compile(self, value: bool) -> None:
        self.use_compile = value

    @classmethod
    def development(cls, **switches: Any) -> "ProfilingConfig":
        """Everything that helps to find a cause, whatever it costs: FLOPs and anomalies too."""
        return _make(cls, {"with_flops": True, "enable_autograd_anomaly": True, **switches})

    @classmethod
    def production(cls, **switches: Any) -> "ProfilingConfig":
        """What costs little: no stacks, shapes or memory events, and one short window."""
        cheap = {
            "with_stack": False,
            "record_shapes": False,
            "profile_memory": False,
            "profiler_schedule": "5:1:3:1",
        }
        return _make(cls, {**cheap, **switches})

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "ProfilingConfig":
        """From a file with one JSON object, or one that ends in .toml: names of switches and their
        values. OSError, ValueError; TypeError for a name that is no switch."""
        path = os.fspath(path)
        with open(path, "rb") as file:
            text = file.read().decode()
        if path.endswith(".toml"):
            import tomllib

            values = tomllib.loads(text)
        else:
            values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError(f"{path} holds no object of switches")
        return _make(cls, values)

    @classmethod
    def from_environment(cls, **switches: Any) -> "ProfilingConfig":
        """From KSCOPE_PROFILE_<SWITCH> (KSCOPE_PROFILE_WITH_STACK=0): 1, 0, true, false, on, off,
        yes or no for switches, text as it is for others. ValueError for another word."""
        values = {}
        for field in dataclasses.fields(cls):
            text = os.environ.get(f"KSCOPE_PROFILE_{field.name.upper()}")
            if text is not None:
                values[field.name] = _from_text(field, text)
        return _make(cls, {**values, **switches})


def create_profiling_config(**switches: Any) -> ProfilingConfig:
    """A ProfilingConfig with these switches; aliases are taken too.

    TypeError for a name that is no switch.
    """
    return _make(ProfilingConfig, switches)


def _make(cls, switches):
    names = {field.name for field in dataclasses.fields(cls)}
    values = {}
    for given, value in switches.items():
        name = _ALIASES.get(given, given)
        if name not in names:
            raise TypeError(f"ProfilingConfig has no switch {given!r}")
        if name in values:
            raise TypeError(f"ProfilingConfig was given {name} under two names")
        values[name] = value
    return cls(**values)


def _from_text(field, text):
    if not isinstance(field.default, bool):
        return text
    words = {"1": True, "true": True, "on": True, "yes": True}
    words |= {"0": False, "false": False, "off": False, "no": False}
    if text.lower() not in words:
        raise ValueError(f"KSCOPE_PROFILE_{field.name.upper()} is {text!r}, neither on nor off")
    return words[text.lower()]
