"""Debugging of a running training: switches, what they cost, and where records go.

Nothing here raises into the program: a watch that fails is switched off, and a record says why.
"""

import contextlib
import os
import sys
import traceback
from time import perf_counter_ns

from kinetoscope.debug.batch_check import BatchCheck
from kinetoscope.debug.forward_table import ForwardTable
from kinetoscope.debug.gradient_flow import GradientFlow
from kinetoscope.debug.gradient_health import GradientHealth
from kinetoscope.debug.graph_check import GraphCheck
from kinetoscope.debug.loss_scale import LossScale
from kinetoscope.debug.metrics import Metrics
from kinetoscope.debug.model_parts import inner_model
from kinetoscope.debug.on_incident import STEPS, Anomaly, ProfilerWindow
from kinetoscope.debug.optimizer_state import OptimizerState
from kinetoscope.debug.program_hooks import ProgramHooks
from kinetoscope.debug.progress_watches import EarlyStopping, LearningRate, MemoryUse, Validation
from kinetoscope.debug.record_log import RecordLog
from kinetoscope.debug.switches import SWITCHES, resolve

WARNING = 30
ACTIONS = ("anomaly", "profiler")
_current = None  # the one session of the process


class Session:
    def __init__(self, model=None, **options):
        self.log = RecordLog(options.get("folder"))
        self.options = options
        self.step = 0
        self.latest = {}
        self.is_on = dict.fromkeys(SWITCHES, False)
        self._models = [] if model is None else [model]
        self._process = os.getpid()
        self._names = {}
        self._incidents = {}
        self._costs_ns = dict.fromkeys(SWITCHES, 0)
        self._watches = {}  # key -> (watch, the switch that pays for it)
        self.anomaly = Anomaly()
        self.window = None
        self.metrics = Metrics(self, options.get("tensorboard"))
        self._hooks = ProgramHooks(self, model)
        self._hooks.install()
        self._excepthook = None
        self._watch_crashes()

    # ---------------------------------------------------------------- switches

    def enable(self, names):
        self.is_on.update(dict.fromkeys(names, True))
        if self.is_on["enable_autograd_anomaly"]:
            self.anomaly.begin()
        for key, (switches, make) in self._table().items():
            on = [name for name in switches if self.is_on[name]]
            if on and key not in self._watches:
                self._watches[key] = make(), on[0]
        self._share_out()
        if {"enable_autograd_profiler", "enable_tensorboard_profiler"} & set(names):
            self.window.request(self.options.get("profiler_steps", STEPS))

    def _table(self):
        """{key: (switches that need it, what makes it)}; health tells others, so it comes first."""
        norms, flow = "debug_gradient_norms", "debug_backward_pass"
        shapes, places = "debug_forward_pass", "debug_device_placement"
        table = {
            "state": ((norms,), lambda: OptimizerState(self)),
            "batches": (("debug_data_loading",), lambda: BatchCheck(self)),
            "health": (
                (norms, flow, "debug_mixed_precision", shapes),
                lambda: GradientHealth(self),
            ),
            "graph": ((norms, flow), lambda: GraphCheck(self)),
            "flow": ((flow,), lambda: GradientFlow(self)),
            "forward": ((shapes, places), lambda: ForwardTable(self)),
            "scale": (("debug_mixed_precision",), lambda: LossScale(self)),
            "memory": (("debug_memory_usage",), lambda: MemoryUse(self)),
            "rates": (
                ("debug_lr_scheduling",),
                lambda: LearningRate(self, self.options.get("schedules") or ()),
            ),
            "validation": (("debug_validation",), lambda: Validation(self)),
            "stopping": (
                ("debug_early_stopping",),
                lambda: EarlyStopping(self, self.options.get("early_stopping")),
            ),
        }
        window = ("enable_autograd_profiler", "enable_tensorboard_profiler")
        if "profiler" in self.options.get("on_incident", ()):
            window += SWITCHES
        table["window"] = (window, self._make_window)
        return table

    def _make_window(self):
        self.window = ProfilerWindow(self, self.options.get("folder"))
        return self.window

    def _share_out(self):
        """One watch serves two switches."""
        if "forward" in self._watches:
            forward = self._watches["forward"][0]
            forward.wants_shapes = self.is_on["debug_forward_pass"]
            forward.wants_devices = self.is_on["debug_device_placement"]
        if "health" in self._watches:
            self._watches["health"][0].is_logged = self.is_on["debug_gradient_norms"]

    def status(self):
        steps = max(1, self.step)
        return {
            name: {
                "enabled": self.is_on[name],
                "cost_us_per_step": self._costs_ns[name] / 1e3 / steps if self.step else None,
            }
            for name in SWITCHES
        }

    def close(self):
        self.tell("finish")
        self._hooks.remove()
        self.anomaly.end()
        if sys.excepthook is self._excepthook:
            sys.excepthook = self._excepthook_before
        self.log.close()

    # ---------------------------------------------------------------- what hooks tell

    def tell(self, event, *args):
        """Hands an event to the watches that want it; each pays for its time. In a child that was
        forked nobody watches."""
        if os.getpid() != self._process:
            return
        try:
            self._tell(event, args)
        except Exception:  # as of a handler of the program's own: nothing can be written then
            self._watches.clear()

    def _tell(self, event, args):
        if event == "step_ended":
            self._end_step()
        elif event == "call_began":
            self._meet(args[0])
        for key, (watch, switch) in list(self._watches.items()):
            handle = getattr(watch, event, None)
            if handle is not None:
                self._tell_one(key, switch, handle, args)

    def _tell_one(self, key, switch, handle, args):
        began_ns = perf_counter_ns()
        others_ns = sum(self._costs_ns.values())
        try:
            handle(*args)
        except Exception as failure:
            self._watches.pop(key, None)
            at = traceback.extract_tb(failure.__traceback__)[-1]
            facts = {"switch": switch, "failure": f"{type(failure).__name__}: {failure}"}
            facts["at"] = f"{at.filename}:{at.lineno}"
            text = f"{switch} is switched off, it failed: {facts['failure']}"
            self.write("failure", facts, text)
        # A watch that tells others pays for itself alone.
        others_ns = sum(self._costs_ns.values()) - others_ns
        self._costs_ns[switch] += perf_counter_ns() - began_ns - others_ns

    def _end_step(self):
        self.step += 1
        self.anomaly.step()
        self.metrics.step()

    def watch(self, model):
        """One more model."""
        self._hooks.watch(model)
        self._meet(model)

    def _meet(self, module):
        if all(module is not known for known in self._models):
            self._models.append(module)
            self._names = {}

    # ---------------------------------------------------------------- what watches ask

    @property
    def can_repeat(self):
        return self.options.get("repeat", True)

    @property
    def must_wait(self):
        return self.options.get("wait", False)

    def models(self):
        return self._models

    def name_of(self, parameter):
        if not self._names:
            for model in reversed(self._models):
                self._names |= {id(p): name for name, p in inner_model(model).named_parameters()}
        return self._names.get(id(parameter)) or f"(unnamed {list(parameter.shape)})"

    def write(self, kind, facts, text=None, *, step=None, level=10):
        self.log.write(kind, facts, text, step=self.step if step is None else step, level=level)

    def incident(self, kind, place, facts, text):
        """A fault: a warning the first time that it is met at this place."""
        count = self._incidents[kind, place] = self._incidents.get((kind, place), 0) + 1
        self.write(kind, facts | {"times": count}, text, level=WARNING if count == 1 else 10)
        if count == 1:
            self._act()

    def _act(self):
        steps = self.options.get("incident_steps", STEPS)
        actions = self.options.get("on_incident", ())
        if "anomaly" in actions and not self.is_on["enable_autograd_anomaly"]:
            self.anomaly.begin(steps)
        if "profiler" in actions and self.window is not None:
            self.window.request(steps)

    # ---------------------------------------------------------------- crashes

    def _watch_crashes(self):
        before = self._excepthook_before = sys.excepthook

        def crashed(kind, failure, trace):
            if _current is self:
                with contextlib.suppress(Exception):
                    self.crashed(failure)
            before(kind, failure, trace)

        sys.excepthook = self._excepthook = crashed

    def crashed(self, failure):
        """An exception ends the training: what was seen of the last steps is written down."""
        self.tell("failed", failure)
        reason = f"{type(failure).__name__}: {failure}"
        path = self.log.dump(reason)
        if path is not None:
            self.write("crash", {"reason": reason, "path": path}, f"{reason}; last steps: {path}")


# -------------------------------------------------------------------- public names


def enable_debugging(names=None, model=None, optimizer=None, **options):
    """Switches these on, with or without "debug_" or "enable_" before them; all without names.

    `model`: parameters have its names, and only it gets hooks; without one the modules that are
    called are found. `optimizer`: one whose state is looked at now. Options, of the call that
    begins:
    folder: where JSON lines, the last steps before a crash, and profiler windows go.
    on_incident: ("anomaly", "profiler"), what is switched on for incident_steps (3) after a fault.
    repeat (True): whether a forward that gave NaN is made again, to name the operator.
    wait (False): whether a step's numbers are waited for at once, on a GPU too.
    schedules, early_stopping: objects whose numbers are written down when they change.
    tensorboard: a SummaryWriter for metrics. profiler_steps (3).

    ValueError: an unknown name, with the list. TypeError: an unknown option. OSError: the folder.
    """
    global _current
    wanted = resolve(names)
    _check_options(options)
    if _current is None:
        _current = Session(model, **options)
    elif model is not None:
        _current.watch(model)
    _current.enable(wanted)
    if optimizer is not None:
        _current.tell("resumed", optimizer)


_OPTIONS = (
    "folder",
    "on_incident",
    "incident_steps",
    "repeat",
    "wait",
    "schedules",
    "early_stopping",
    "tensorboard",
    "profiler_steps",
)


def _check_options(options):
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise TypeError(f"enable_debugging has no option {unknown[0]!r}: {', '.join(_OPTIONS)}")
    actions = options.get("on_incident", ())
    if isinstance(actions, str) or any(action not in ACTIONS for action in actions):
        raise ValueError(f"on_incident is a tuple of {', '.join(ACTIONS)}, not {actions!r}")


def disable_debugging():
    """Switches all off, and takes all hooks out of the program."""
    global _current
    session, _current = _current, None
    if session is not None:
        session.close()


def get_debugging_status():
    """{switch: {enabled, cost_us_per_step}}; the cost is None before the first step."""
    if _current is None:
        return {name: {"enabled": False, "cost_us_per_step": None} for name in SWITCHES}
    return _current.status()


@contextlib.contextmanager
def debugging(names=None, model=None, optimizer=None, **options):
    """Debugging in the block; an exception passes, with the last steps written down. What was on
    already stays on behind the block, and is then left as it is in the block."""
    if _current is not None or (names is not None and not list(names)):
        yield
        return
    enable_debugging(names, model, optimizer, **options)
    try:
        yield
    except BaseException as failure:
        if _current is not None:
            _current.crashed(failure)
        raise
    finally:
        disable_debugging()


def note(kind, **facts):
    """A record of the program's own, as of a validation, data splits or a decision to stop. Does
    nothing while debugging is off."""
    if _current is not None:
        _current.write(kind, facts)


def add_metric(name, function, every=1):
    """Writes down what function(step) returns, a number or a dictionary of numbers, behind each
    `every`-th step, and in TensorBoard where that was given. ValueError: every below 1.
    RuntimeError: debugging is off."""
    if _current is None:
        raise RuntimeError("debugging is off: enable_debugging() comes first")
    if every < 1:
        raise ValueError(f"every must be at least 1, not {every}")
    _current.metrics.add(name, function, every)


def remove_metric(name):
    """Takes a metric away. KeyError: there is none of that name."""
    if _current is None:
        raise KeyError(name)
    _current.metrics.remove(name)
