"""PyTorchProfiler: drives torch.profiler as a ProfilingConfig says; what it recorded is analysed in
C (kinetoscope.open)."""

import contextlib
import os
import tempfile

import torch

import kinetoscope
from kinetoscope.torch.trace_session import TraceSession, activities, copy_trace

SECOND_NS = 1e9
WIDTH_MAX = 1000

_SUMS = (
    "select sum(case when kind = 'op' then self_cpu_ns end), sum(self_device_ns) "
    "from fact_operators"
)
_TOTAL = "select sum(dur_ns) from fact_steps where complete"
_TOP = (
    "select name, cpu_ns, self_cpu_ns, device_ns, calls from fact_operators where kind = 'op' "
    "order by cpu_ns desc, name limit {}"
)


class PyTorchProfiler:
    """Records steps with torch.profiler, and answers about the last recording.

        profiler = PyTorchProfiler(config)
        with profiler.record():
            for batch in loader:
                train(batch)
                profiler.step()
        profiler.get_profile_summary()

    Without a recording questions raise RuntimeError. Without a GPU all device times are 0.
    """

    def __init__(self, config=None):
        self.config = config or kinetoscope.ProfilingConfig()
        self._session = None
        self._paths = []
        self._stack_paths = []
        self._reports = {}
        self._temporary = None

    # ---------------------------------------------------------------- recording

    @contextlib.contextmanager
    def record(self, folder=None, *, with_stack=None):
        """A recording from here to the end of the block; the one before it is forgotten.

        `folder`: where its traces stay; else output_dir/traces when save_profiles is on, else a
        folder that goes with this object. `with_stack`: instead of the config's. RuntimeError when
        a torch profiler runs already; OSError when the folder cannot be written.
        """
        config = self.config
        schedule = config.torch_profiler_schedule or config.profiler_schedule
        handler = config.torch_profiler_trace_handler
        has_stack = config.with_stack if with_stack is None else with_stack
        with self._recording(folder, schedule, handler, has_stack) as session:
            self._forget()
            yield self
        self._paths = session.paths

    @contextlib.contextmanager
    def record_stacks(self, folder=None):
        """One more recording beside the last one, with Python stacks: only places come from it."""
        with self._recording(folder, "RECORD_AND_SAVE", None, True, ".stacks") as session:
            yield self
        self._stack_paths = session.paths
        self._close_reports()

    @contextlib.contextmanager
    def _recording(self, folder, schedule, handler, with_stack, suffix=""):
        if self._session is not None:
            raise RuntimeError("this profiler records already")
        session = TraceSession(
            folder or self._folder(), schedule, handler, suffix, **self._options(with_stack)
        )
        session.start()
        self._session = session
        try:
            yield session
        except BaseException:
            self._session = None
            with contextlib.suppress(Exception):  # that of the block is the one that counts
                session.stop()
            raise
        self._session = None
        session.stop()

    def step(self):
        """Says that a step has ended. RuntimeError while nothing is recorded."""
        if self._session is None:
            raise RuntimeError("step() is for inside of record()")
        self._session.step()

    def profile_step(self, function, *args, **kwargs):
        """Records one call of a function, as one step, and returns what it returned."""
        with self.record():
            result = function(*args, **kwargs)
            self.step()
        return result

    def profile_model(self, model, inputs, num_steps=3):
        """Records `num_steps` forward passes without gradients. `inputs`: a tensor, a tuple of
        arguments or a dict of them. Returns get_profile_summary(). TypeError: no module."""
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"profile_model takes a torch.nn.Module, not {type(model).__name__}")
        with torch.no_grad(), self.record():
            for _ in range(num_steps):
                call_model(model, inputs)
                self.step()
        return self.get_profile_summary()

    def _options(self, with_stack):
        config = self.config
        options = {
            "activities": activities(config.profile_torch_operations, config.profile_cuda_kernels),
            "record_shapes": config.record_shapes,
            "profile_memory": config.profile_memory and config.profile_memory_allocations,
            "with_stack": with_stack,
            "with_flops": config.with_flops,
        }
        if config.profile_cuda_synchronization and torch.cuda.is_initialized():
            options.update(_with_syncs())
        return options

    def _folder(self):
        if self.config.save_profiles:
            return os.path.join(self.config.output_dir, "traces")
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="kinetoscope-")
        return self._temporary.name

    def _close_reports(self):
        for report in self._reports.values():
            report.close()
        self._reports = {}

    def _forget(self):
        self._close_reports()
        self._paths = []
        self._stack_paths = []

    # ---------------------------------------------------------------- what was recorded

    @property
    def has_recording(self):
        """Whether there is something to ask about."""
        return bool(self._paths)

    @property
    def report(self):
        """The kinetoscope.Report of the last recording."""
        return self._report()

    def _report(self, by_shape=False, stacks_alone=False):
        if not self._paths:
            raise RuntimeError("nothing was recorded yet")
        key = (by_shape, stacks_alone)
        if key not in self._reports:
            paths = self._stack_paths if stacks_alone else self._paths
            stacks = [] if stacks_alone else self._stack_paths
            self._reports[key] = kinetoscope.open(paths, stacks=stacks, by_shape=by_shape)
        return self._reports[key]

    def get_profile_summary(self, row_limit=10):
        """What the recording comes to, times in seconds:

        total_time: of all complete steps. cpu_time: of that, in operators. cuda_time: work of the
        GPU, 0 without one. top_operations: [{name, cpu_time, self_cpu_time, cuda_time, calls}],
        `row_limit` operators with the most cpu_time, which has that of the operators they call.
        """
        report = self.report
        ((cpu_ns, device_ns),) = report.query(_SUMS)
        ((total_ns,),) = report.query(_TOTAL)
        return {
            "total_time": (total_ns or 0) / SECOND_NS,
            "cpu_time": (cpu_ns or 0) / SECOND_NS,
            "cuda_time": (device_ns or 0) / SECOND_NS,
            "top_operations": [_operation(*row) for row in report.query(_TOP.format(row_limit))],
        }

    def table(
        self, sort_by=None, row_limit=20, group_by_input_shape=False, group_by_stack_n=0, width=0
    ):
        """Operators as a table of text. `sort_by`: a key of torch's table(), or a column.

        group_by_input_shape: a row for each name and shapes. group_by_stack_n: a row for each name
        and the line of the program that called it, which needs with_stack. `width`: characters of
        a line, else room for all columns. ValueError: no such key.
        """
        width = width or WIDTH_MAX
        if group_by_stack_n:
            return self.report.table("places", None, row_limit, width)
        return self._report(group_by_input_shape).table("operators", sort_by, row_limit, width)

    def export_chrome_trace(self, path):
        """Writes the trace of the last window, compressed when the name ends in .gz. OSError."""
        if not self._paths:
            raise RuntimeError("nothing was recorded yet")
        copy_trace(self._paths[-1], path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Writes folded stacks, "frame;frame;operator NS" a line, for flame graphs.

        metric: self_cpu_time_total or self_cuda_time_total, as in torch. ValueError: another one.
        """
        weights = {"self_cpu_time_total": "self_cpu", "self_cuda_time_total": "device"}
        if metric not in weights:
            raise ValueError(f"metric must be one of {', '.join(weights)}, not {metric!r}")
        report = self._report(stacks_alone=bool(self._stack_paths))
        report.export(path, "folded", weight=weights[metric])

    def tensorboard_trace_handler(self, folder):
        """For torch_profiler_trace_handler: traces under names that TensorBoard looks for."""
        return torch.profiler.tensorboard_trace_handler(folder)

    def _repr_html_(self):
        return self.report._repr_html_() if self._paths else "<pre>nothing was recorded yet</pre>"


def _operation(name, cpu_ns, self_cpu_ns, device_ns, calls):
    return {
        "name": name,
        "cpu_time": cpu_ns / SECOND_NS,
        "self_cpu_time": self_cpu_ns / SECOND_NS,
        "cuda_time": (device_ns or 0) / SECOND_NS,
        "calls": calls,
    }


def _with_syncs():
    """Newer torch can record what waits for the GPU."""
    try:
        from torch._C._profiler import _ExperimentalConfig

        return {"experimental_config": _ExperimentalConfig(enable_cuda_sync_events=True)}
    except (ImportError, TypeError):
        return {}


def call_model(model, inputs):
    """model(*inputs), model(**inputs) or model(inputs), by what the inputs are."""
    if isinstance(inputs, dict) or hasattr(inputs, "keys"):
        return model(**inputs)
    if isinstance(inputs, tuple | list):
        return model(*inputs)
    return model(inputs)
