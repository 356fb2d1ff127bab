"""Connects the engine with kinetoscope: the only file that knows its names.

Where kinetoscope is missing, or has no such part, the engine runs as well and is not profiled.
"""

import contextlib
import dataclasses
import importlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from .config import SEOConfig
from .profiling_switches import ProfilingSwitches

Facts = dict[str, Any]
PLACES = ("kinetoscope", "kinetoscope.debug", "kinetoscope.hf")
DEBUG = logging.getLogger("kinetoscope.debug")


def find(name: str) -> Any:
    """A public name of kinetoscope; None where it has none."""
    for place in PLACES:
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(place), name)
    return None


def need(name: str) -> Any:
    """A public name of kinetoscope. RuntimeError: this one has no such part."""
    found = find(name)
    if found is None:
        raise RuntimeError(f"this needs {name} of kinetoscope, which is not installed here")
    return found


class EngineProfiling:
    """`code_profiler`: a kinetoscope.CodeProfiler with the switches of the engine, or None."""

    def __init__(self, config: SEOConfig) -> None:
        self._config = config
        self._region = find("profile_operation")
        self._end_step = find("step")
        self._is_recording = False
        self.code_profiler = _make_code_profiler(config)
        self.module_times: Facts = {}
        self.memory_snapshots: list[Facts] = []

    # ---------------------------------------------------------------- regions

    def region(
        self, switch: str, name: str, category: str
    ) -> contextlib.AbstractContextManager[Any]:
        """A labelled region while the switch is on."""
        if self._region is None or not getattr(self._config, switch):
            return contextlib.nullcontext()
        return self._region(name, category)

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The batches of a loader; waiting for each is a region."""
        iterator = iter(loader)
        while True:
            with self.region("profile_data_loading", "next_batch", "data_loading"):
                batch = next(iterator, None)
            if batch is None:
                return
            yield batch

    def placement(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Counts what moves between devices."""
        watch = find("profile_device_placement")
        if watch is None or not self._config.profile_device_mapping:
            return contextlib.nullcontext()
        return watch(name)

    # ---------------------------------------------------------------- a whole training

    def end_step(self) -> None:
        """Says that a training step has ended, to `kscope run` and to what records here."""
        if self._end_step is not None:
            self._end_step()
        if self._is_recording:
            self.code_profiler.pytorch_profiler.step()

    def training_loop(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function; monitored, and a region, while trainings are to be profiled."""
        if not self._is_on() or not self._config.profile_fine_tuning:
            return function
        return self.code_profiler.profile_training_loop(function)

    @contextlib.contextmanager
    def recording(self, model: torch.nn.Module) -> Iterator[None]:
        """Steps in the block are recorded while trainings are to be profiled; nothing of what they
        compute changes."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(_anomalies(self._config.enable_autograd_anomaly))
            if self._is_on():
                self._start(stack, model)
            try:
                yield
            finally:
                self._is_recording = False

    def _start(self, stack: contextlib.ExitStack, model: torch.nn.Module) -> None:
        if self._config.profile_model_forward:
            hooks = stack.enter_context(need("TorchProfilingHooks")(self.code_profiler))
            hooks.register_model_hooks(model)
            stack.callback(lambda: self.module_times.update(hooks.get_times()))
        if self._config.use_torch_profiler:
            stack.enter_context(self.code_profiler.pytorch_profiler.record())
            self._is_recording = True
        elif self._config.enable_autograd_profiler:
            stack.enter_context(_autograd_profile(self._config))

    def snapshot_memory(self, tag: str) -> None:
        """Keeps what the GPU's memory holds, of a training that is profiled on one."""
        if self._is_on() and self._config.profile_cuda_memory and torch.cuda.is_initialized():
            snapshot = need("TorchMemoryProfiler")(self.code_profiler.config).snapshot_memory(tag)
            self.memory_snapshots.append(snapshot)

    def _is_on(self) -> bool:
        return self._config.profile_training and self.code_profiler is not None

    # ---------------------------------------------------------------- models beside each other

    def compare_variants(self, folders: list[str], texts: list[str]) -> Facts:
        """kinetoscope's benchmark of saved classifiers on the same texts."""
        return need("benchmark_model_variants")(
            folders,
            texts,
            self.code_profiler,
            model_class="AutoModelForSequenceClassification",
            batch_size=self._config.batch_size,
        )

    def estimate_memory(self, model: torch.nn.Module, tokens: int) -> Facts:
        """kinetoscope's estimate of a training step with texts of so many tokens."""
        return need("estimate_memory")(
            model,
            self._config.batch_size,
            tokens,
            checkpointing=self._config.gradient_checkpointing,
        )

    # ---------------------------------------------------------------- debugging

    def note(self, switch: str, make_facts: Callable[[], Facts]) -> None:
        """Logs what a debug switch is about. Facts are made only while it is on: some wait for the
        GPU."""
        if not getattr(self._config, switch):
            return
        facts = make_facts()
        words = " ".join(f"{name}={value}" for name, value in facts.items())
        DEBUG.debug("%s %s", switch.removeprefix("debug_"), words, extra={"facts": facts})

    def enable_debugging(self, names: list[str] | None = None, **what: Any) -> None:
        """kinetoscope.enable_debugging, and the same switches of the engine. `what`: the model and
        what trains it."""
        need("enable_debugging")(names, **what)
        self._take_debug_switches()

    def disable_debugging(self) -> None:
        """kinetoscope.disable_debugging, and the same switches of the engine."""
        need("disable_debugging")()
        self._take_debug_switches()

    def get_debugging_status(self) -> Facts:
        """kinetoscope.get_debugging_status."""
        return need("get_debugging_status")()

    def _take_debug_switches(self) -> None:
        status = self.get_debugging_status()
        for switch in (s for s in _names_of_switches() if s.startswith("debug_")):
            entry = status.get(switch) or status.get(switch.removeprefix("debug_"))
            setattr(self._config, switch, bool(entry and entry["enabled"]))


def _names_of_switches() -> list[str]:
    return [field.name for field in dataclasses.fields(ProfilingSwitches)]


def _make_code_profiler(config: SEOConfig) -> Any:
    make_profiler, make_config = find("CodeProfiler"), find("create_profiling_config")
    if make_profiler is None or make_config is None:
        return None
    profiling = make_config(**{name: getattr(config, name) for name in _names_of_switches()})
    profiler = make_profiler(profiling)
    if config.enable_tensorboard_profiler and profiling.torch_profiler_trace_handler is None:
        folder = os.path.join(config.output_dir, "tensorboard")
        handler = profiler.pytorch_profiler.tensorboard_trace_handler(folder)
        profiling.torch_profiler_trace_handler = handler
    return profiler


def _anomalies(is_on: bool) -> contextlib.AbstractContextManager[Any]:
    return torch.autograd.set_detect_anomaly(True) if is_on else contextlib.nullcontext()


@contextlib.contextmanager
def _autograd_profile(config: SEOConfig) -> Iterator[None]:
    """torch's older profiler; its table of operators goes into output_dir."""
    with torch.autograd.profiler.profile(record_shapes=config.record_shapes) as profile:
        yield
    os.makedirs(config.output_dir, exist_ok=True)
    path = os.path.join(config.output_dir, f"autograd.{os.getpid()}.{time.time_ns()}.txt")
    with open(path, "x", encoding="utf-8") as file:
        file.write(profile.key_averages().table(sort_by="self_cpu_time_total"))
