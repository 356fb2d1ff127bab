"""CodeProfiler: the parts of the profiler under one roof, set up by one ProfilingConfig."""

import contextlib
import functools
from time import perf_counter_ns

import torch

import kinetoscope
from kinetoscope._engine import summarize
from kinetoscope.debug.session import debugging
from kinetoscope.debug.switches import switches_of
from kinetoscope.torch import compiler_counts, pipeline_report
from kinetoscope.torch.data_loading_profiler import DataLoadingProfiler
from kinetoscope.torch.model_optimizer import ModelOptimizer, benchmark_report, stages_of
from kinetoscope.torch.state_guard import kept_state
from kinetoscope.torch.torch_profiler import PyTorchProfiler
from kinetoscope.torch.trace_session import make_folder
from kinetoscope.torch.training_pipeline import Pipeline

MEGABYTE = 1e6
TUNE_SECONDS = 20.0
MONITOR_NS_MIN = 300_000_000  # the machine's CPU is looked at five times a second
_MONITORED = {
    "cpu": "monitor_cpu",
    "process_cpu": "monitor_cpu",
    "memory": "monitor_memory",
    "process_memory": "monitor_memory",
    "gpu_memory": "monitor_gpu",
    "gpu": "profile_gpu_utilization",
}


class CodeProfiler:
    """Profiles functions, training loops and whole pipelines as `config` says (a ProfilingConfig,
    or None for the defaults).

    performance_monitor, pytorch_profiler, data_loading_profiler, model_optimizer: its parts, which
    can be used alone. Times are seconds, memory_delta MB (10^6 bytes), cpu and memory percent,
    gpu_memory GB (10^9 bytes).
    """

    def __init__(self, config=None):
        self.config = config or kinetoscope.ProfilingConfig()
        self.performance_monitor = kinetoscope.PerformanceMonitor()
        self.pytorch_profiler = PyTorchProfiler(self.config)
        self.data_loading_profiler = DataLoadingProfiler(self.config)
        self.model_optimizer = ModelOptimizer(self.config)
        self.training_loops = []
        self._is_busy = False

    # ---------------------------------------------------------------- regions and functions

    def profile_operation(self, name, category="custom"):
        """A labelled region: kinetoscope.profile_operation."""
        return kinetoscope.profile_operation(name, category)

    def profile_function(self, function, *args, **kwargs):
        """Calls the function and says what that took:

        execution_time: seconds. memory_delta: MB by which resident memory of the process grew.
        hot_functions: [{name, file, line, calls, own_time, total_time}], most own_time first (20 at
        most), counted call by call, which makes Python calls slower. result: what it returned. An
        exception passes; RuntimeError when another profiler sees the calls already.
        """
        calls = kinetoscope.FunctionProfiler()
        with self._alone():
            before = _resident_bytes()
            calls.start()
            began_ns = perf_counter_ns()
            try:
                result = function(*args, **kwargs)
            finally:
                elapsed_ns = perf_counter_ns() - began_ns
                calls.stop()
            grown = _resident_bytes() - before
        return {
            "execution_time": elapsed_ns / 1e9,
            "memory_delta": grown / MEGABYTE,
            "hot_functions": _hot_functions(calls.stats()),
            "result": result,
        }

    def profile_training_loop(self, function):
        """Decorator for a function or method that trains: each call is a region "training_loop"
        and is monitored. What it returns and raises is as without; `training_loops` then has
        {name, duration, performance_monitoring} of each call that was not inside another."""
        name = getattr(function, "__name__", type(function).__name__)
        region = kinetoscope.profile_operation(name, "training_loop")

        @functools.wraps(function)
        def profiled(*args, **kwargs):
            if self._is_busy:
                return function(*args, **kwargs)
            with self._alone(), region, self._monitored():
                began_ns = perf_counter_ns()
                try:
                    return function(*args, **kwargs)
                finally:
                    self._end_loop(name, perf_counter_ns() - began_ns)

        return profiled

    def _end_loop(self, name, duration_ns):
        self.performance_monitor.stop_monitoring()
        self.training_loops.append(
            {
                "name": name,
                "duration": duration_ns / 1e9,
                "performance_monitoring": self._performance(),
            }
        )

    # ---------------------------------------------------------------- the pipeline

    def profile_training_pipeline(
        self, model, dataloader, num_steps=10, loss_fn=None, optimizer=None
    ):
        """Trains for some steps, profiles that, and puts everything back as it was: parameters,
        buffers, gradients, modes, the optimizer, random states, also after an exception, which
        passes. Needs room for one copy of those.

        loss_fn(output, target): without one the output's .loss, else cross-entropy for integer
        targets, else only the forward runs; `loss` says which. A batch that is a pair is (input,
        target), a mapping is passed as keyword arguments; tensors go to the model's device.

        Steps run without a profiler first, to time them, then to record them, and with with_stack
        one of them once more, for Python stacks.

        Report, all of it fit for JSON: steps (recorded), step_times (count, mean, std, ... of those
        without a profiler), loss; data_loading (profile_dataloader's figures),
        data_bottlenecks, data_optimizations; model_profiling (get_profile_summary's);
        model_optimizations; performance_monitoring {cpu, memory, gpu_memory, ...: {mean, max} or
        None}; compilation (as profile_compilation says, None without any); findings;
        recommendations. What is switched off is None or empty. With
        save_profiles it is in output_dir too: report.json, summary.txt, optimizations.json,
        performance.png (or .svg), traces/.

        TypeError: no module, or a loader that cannot be iterated over. ValueError: an empty
        loader, num_steps below 1. RuntimeError: a profiler runs already. OSError: output_dir.
        """
        if num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, not {num_steps}")
        pipeline = Pipeline(model, loss_fn, optimizer, self.config.profile_model_forward)
        with self._alone():
            folder = make_folder(self.config.output_dir) if self.config.save_profiles else None
            with self._monitored():
                compiled_before = compiler_counts.totals()
                with kept_state(model, optimizer, dataloader):
                    stats = self._profile_data(dataloader, num_steps)
                    lengths, steps = self._train(pipeline, dataloader, num_steps)
                summary = self._analyze()
            report = self._make_report(stats, summary, lengths, pipeline, dataloader)
            report["compilation"] = self._compilation(compiled_before)
            report["steps"] = steps
            if folder is not None:
                pipeline_report.save(folder, report, self.performance_monitor)
        return report

    def _profile_data(self, dataloader, num_steps):
        config = self.config
        is_wanted = config.profile_data_loading and config.profile_dataloader_performance
        if not is_wanted or iter_is_itself(dataloader):
            return None
        return self.data_loading_profiler.profile_dataloader(dataloader, num_steps)

    def benchmark_optimizations(
        self, model, dataloader, num_steps=10, loss_fn=None, optimizer=None, seconds=TUNE_SECONDS
    ):
        """Tries what the config's switches allow (use_mixed_precision, use_channels_last,
        use_compile, gradient_checkpointing, optimize_attention; with enable_optimizations), the
        implementations of the optimizer and the loader's settings on up to num_steps batches, and
        compares the program as it is with all changes that helped (docs/tuning_python.md).

        baseline, optimized: {step_time, interval, peak_memory_bytes, optimizations, code};
        improvements: {time_improvement_percent, memory_improvement_percent (None where memory is
        not known), speedup_factor, std (of a step, in seconds), interval {low, high} of the
        speedup, verdict: faster, slower or cannot_tell}; tried: a row for each variant. A step
        has the loading of its batch in it. Where nothing helped both are the same program, and the
        verdict is cannot_tell.

        Steps train a copy when the model is in training mode, or a loss_fn is given, with the
        optimizer's like where there is one. The model, the optimizer and the loader are left
        alone. `seconds` bounds the timing. Raises what tune_model raises.
        """
        if num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, not {num_steps}")
        from kinetoscope.tune.combination import tune_model

        with self._alone():
            result = tune_model(
                model,
                dataloader,
                loss_fn=loss_fn,
                optimizer=optimizer,
                training=True if loss_fn is not None else None,
                report=self.model_optimizer.findings,
                what=stages_of(self.config, has_loop=True),
                batches=num_steps,
                seconds=seconds,
            )
        return benchmark_report(result)

    def _train(self, pipeline, dataloader, num_steps):
        """(lengths of steps that nothing recorded, number of steps that were recorded)"""
        is_strict = self.config.enable_autograd_anomaly
        debug = debugging(switches_of(self.config), pipeline.model, pipeline.optimizer)
        with torch.autograd.set_detect_anomaly(True) if is_strict else _off(), debug:
            lengths = self._run_free(pipeline, dataloader, num_steps)
            if not self.config.use_torch_profiler:
                steps = len(lengths) or pipeline.run(dataloader, num_steps, _do_nothing)
            else:
                steps = self._record(pipeline, dataloader, num_steps)
        if steps == 0:
            raise ValueError("the data loader is empty: there is no step to profile")
        self.model_optimizer.see(pipeline.last_batch)
        return lengths, steps

    def _run_free(self, pipeline, dataloader, num_steps):
        """The profiler makes steps longer, so some run without it first; of short ones as many as
        the monitor needs to see something."""
        lengths = []
        until_ns = perf_counter_ns() + MONITOR_NS_MIN
        # What is its own iterator gives its batches once: to the steps that are recorded.
        while not iter_is_itself(dataloader):
            lengths += pipeline.run_free(dataloader, num_steps)
            if not lengths or perf_counter_ns() > until_ns:
                break
        return lengths

    def _record(self, pipeline, dataloader, num_steps):
        profiler = self.pytorch_profiler
        with profiler.record(with_stack=False):
            steps = pipeline.run(dataloader, num_steps, profiler.step)
        if steps > 0 and self.config.with_stack and not iter_is_itself(dataloader):
            # Stacks make all calls slower: one more step has them, and gives only places.
            with profiler.record_stacks():
                pipeline.run(dataloader, 1, profiler.step)
        return steps

    def _analyze(self):
        """Summary of what was recorded just now; None: nothing was."""
        profiler = self.pytorch_profiler
        if not self.config.use_torch_profiler or not profiler.has_recording:
            self.model_optimizer.forget()
            return None
        self.model_optimizer.suggest(profiler.report)
        return profiler.get_profile_summary()

    def _make_report(self, stats, summary, lengths, pipeline, dataloader):
        loading, profiler = self.data_loading_profiler, self.pytorch_profiler
        step_times = summarize(lengths) if lengths else None
        step_time = step_times["mean"] if step_times else None
        optimizations = self.model_optimizer.get_optimization_summary()
        performance = self._performance()
        bottlenecks = loading.identify_bottlenecks(stats, step_time) if stats else []
        sentences = self.generate_recommendations(stats, summary, performance)
        return {
            "step_times": step_times,
            "loss": pipeline.loss_kind,
            "data_loading": stats,
            "data_bottlenecks": bottlenecks,
            "data_optimizations": _data_optimizations(loading, dataloader, stats, step_time),
            "model_profiling": summary,
            "model_optimizations": optimizations,
            "performance_monitoring": performance,
            "compilation": None,
            "findings": profiler.report.findings if summary else [],
            "recommendations": sentences + pipeline_report.of_findings(optimizations["suggested"]),
        }

    def generate_recommendations(self, data_stats, profile_summary, performance_summary):
        """Sentences that these figures allow, in the form in which the report has them; none when
        nothing is wrong. Any of the three may be None."""
        return pipeline_report.recommendations(data_stats, profile_summary, performance_summary)

    _generate_recommendations = generate_recommendations

    def _compilation(self, before):
        is_wanted = self.config.profile_model_compilation and compiler_counts.members()
        return compiler_counts.since(before) if is_wanted else None

    def _performance(self):
        summary = self.performance_monitor.get_summary()
        wanted = {key: getattr(self.config, switch) for key, switch in _MONITORED.items()}
        return {key: summary.get(key) if is_on else None for key, is_on in wanted.items()}

    # ---------------------------------------------------------------- one at a time

    @contextlib.contextmanager
    def _alone(self):
        if self._is_busy:
            raise RuntimeError("this CodeProfiler is profiling already")
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    @contextlib.contextmanager
    def _monitored(self):
        config = self.config
        is_wanted = config.monitor_cpu or config.monitor_memory or config.monitor_gpu
        if is_wanted:
            self.performance_monitor.start_monitoring()
        try:
            yield
        finally:
            if is_wanted:
                self.performance_monitor.stop_monitoring()


def _off():
    return contextlib.nullcontext()


def _do_nothing():
    pass


def iter_is_itself(loader):
    """Whether iterating over it uses it up, as a generator."""
    return hasattr(loader, "__next__")


def _resident_bytes():
    with kinetoscope.SystemMonitor(0) as monitor:
        return monitor.latest().get("memory.rss", 0)


def _hot_functions(stats, limit=20):
    rows = [_hot_function(label, entry) for label, entry in stats.items()]
    return sorted(rows, key=lambda row: -row["own_time"])[:limit]


def _hot_function(label, entry):
    file, line, name = label
    calls, _, own_time, total_time, _ = entry
    return {
        "name": name,
        "file": file,
        "line": line,
        "calls": calls,
        "own_time": own_time,
        "total_time": total_time,
    }


def _data_optimizations(profiler, dataloader, stats, step_time):
    return profiler.optimize_dataloader(dataloader, stats, step_time) if stats else {}
