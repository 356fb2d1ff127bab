"""Norms of all gradients, what is not finite, and what caused it.

A step costs one fused norm over all gradients and one read, which on a GPU is a copy that the next
step looks at. Only when a number is bad does anything look closer.
"""

import collections
import math
from dataclasses import dataclass

import torch

from kinetoscope._engine import summarize
from kinetoscope.debug import first_bad
from kinetoscope.debug.model_parts import inner_model
from kinetoscope.torch.tensor_tree import tensors_of

CALLS_KEPT = 2  # each holds the inputs of one forward until the step is over
OUTPUTS_MAX = 4
WINDOW_STEPS = 64
WINDOW_STEPS_MIN = 10
SPIKE_FACTOR = 10  # of the running median, and SPIKE_FACTOR_MAX of the largest in the window
SPIKE_FACTOR_MAX = 3
RATE_FACTOR = 4  # a learning rate that rose so much within the window explains a spike
ALL_NORMS_EVERY = 50


@dataclass
class Look:
    """What one step's read says. norms: of each parameter that has a gradient, unscaled."""

    step: int
    names: list
    parameters: list
    norms: list
    loss: float | None
    outputs: list
    is_scaled: bool
    loss_operators: list
    calls: list
    is_late: bool  # looked at when the optimizer had made its step already

    @property
    def total(self):
        return math.hypot(*self.norms) if self.norms else 0.0

    @property
    def bad_gradients(self):
        return [i for i, norm in enumerate(self.norms) if not math.isfinite(norm)]

    @property
    def is_forward_bad(self):
        """A scaled loss may be infinite for its scale alone."""
        loss = 0.0 if self.loss is None else self.loss
        is_bad = math.isnan(loss) or (math.isinf(loss) and not self.is_scaled)
        return is_bad or not all(math.isfinite(value) for value in self.outputs)

    @property
    def is_bad(self):
        return self.is_forward_bad or bool(self.bad_gradients)


class GradientHealth:
    """Tells "looked" of each step to the other watches. `is_logged`: whether norms are records."""

    def __init__(self, session, is_logged=True):
        self.is_logged = is_logged
        self._session = session
        self._calls = []
        self._outputs = []
        self._loss = None
        self._loss_operators = []
        self._pending = None
        self._last_good = None
        self._is_broken = False
        self._losses = _Window()
        self._norms = _Window()
        self._rates = collections.deque(maxlen=WINDOW_STEPS)

    # ---------------------------------------------------------------- what is kept of a step

    def call_began(self, module, call):
        if not call.has_grad:
            return
        call.random = first_bad.random_states()
        call.autocast = _autocast_of(module)
        self._calls = [*self._calls[-CALLS_KEPT + 1 :], call]

    def call_ended(self, module, call, output):
        if not call.has_grad or output is None:
            return
        floats = [t for t in tensors_of(_values(output)) if first_bad.is_float(t) and t.numel()]
        with torch.no_grad():
            self._outputs = [_norms([t])[0] for t in floats[:OUTPUTS_MAX]]

    def backward(self, roots):
        root = roots if isinstance(roots, torch.Tensor) else next(iter(tensors_of(roots)), None)
        if root is None or root.numel() != 1 or root.is_meta:
            return
        self._loss = root.detach().reshape(())
        if root.is_cuda:  # what it is is read later, when its operators are gone
            is_asked = self._session.must_wait
        else:
            is_asked = not math.isfinite(self._loss.item())
        if is_asked:
            self._loss_operators = _operators_behind(root)

    # ---------------------------------------------------------------- the read

    def step_begins(self, optimizer, scaler):
        self._look()  # at the step before, where that waited for a GPU
        names, parameters = self._with_gradients(optimizer)
        with torch.no_grad():
            norms = _norms([_local(p.grad) for p in parameters])
        values = [*norms, *self._outputs, *([] if self._loss is None else [self._loss])]
        counts = len(norms), len(self._outputs), self._loss is not None
        kept = names, parameters, self._loss_operators, self._calls
        scale = None if scaler is None else scaler._scale
        has_scale = _are_scaled(scaler, optimizer)
        self._pending = _Pending(self._session.step + 1, values, (scale, has_scale), counts, kept)
        self._rates.append(optimizer.param_groups[0].get("lr"))
        self._calls, self._outputs, self._loss, self._loss_operators = [], [], None, []
        if self._session.must_wait or not self._pending.is_late:
            self._look(is_late=False)

    def finish(self):
        self._look()
        self._calls, self._outputs, self._loss = [], [], None

    def _with_gradients(self, optimizer):
        found = [p for g in optimizer.param_groups for p in g["params"] if _has_gradient(p)]
        return [self._session.name_of(p) for p in found], found

    def _look(self, is_late=True):
        pending, self._pending = self._pending, None
        if pending is None:
            return
        look = pending.read(is_late)
        self._session.latest.update(loss=look.loss, norm=look.total)
        self._judge(look)
        self._session.tell("looked", look)

    # ---------------------------------------------------------------- judging

    def _judge(self, look):
        self._log(look)
        if not look.is_bad:
            self._is_broken = False
            self._last_good = look.step
            self._warn_early(look)
        elif look.is_scaled and not look.is_forward_bad:
            self._note_overflow(look)
        elif not self._is_broken:
            self._is_broken = True
            self._report(look)

    def _log(self, look):
        if not self.is_logged:
            return
        worst = max(range(len(look.norms)), key=_size_of(look.norms), default=None)
        facts = {"norm": look.total, "loss": look.loss, "parameters": len(look.norms)}
        if worst is not None:
            facts |= {"largest": look.names[worst], "largest_norm": look.norms[worst]}
        if look.step % ALL_NORMS_EVERY == 1:
            facts["norms"] = dict(zip(look.names, look.norms, strict=True))
        text = " ".join(f"{k}={v}" for k, v in facts.items() if k != "norms")
        self._session.write("gradient_norms", facts, text, step=look.step)

    def _note_overflow(self, look):
        """A scaler looks for a scale by leaving steps out: its watch says when that is too much."""
        first = look.names[look.bad_gradients[-1]]
        self._session.latest["overflow"] = first
        self._session.write("mixed_precision", {"overflow_in": first}, step=look.step)

    def _report(self, look):
        try:
            facts = diagnose(look, self._session.can_repeat)
        except Exception as failure:
            facts = {"cause": "unknown", "why_unknown": f"{type(failure).__name__}: {failure}"}
        facts["step"], facts["last_good_step"] = look.step, self._last_good
        facts["bad_gradients"] = [look.names[i] for i in look.bad_gradients][:20]
        self._session.incident("not_finite", place_of(facts), facts, _sentence(facts, look.step))

    def _warn_early(self, look):
        spikes = []
        if look.norms and self._norms.is_spike(look.total):
            spikes.append(("gradient norm", look.total, self._norms.median))
        if look.loss is not None and self._losses.is_spike(look.loss):
            spikes.append(("loss", look.loss, self._losses.median))
        for what, value, median in spikes[:1]:
            facts = {"what": what, "value": value, "median": median, **self._rate_facts()}
            factor = value / median
            text = f"{what} {value:.4g} in step {look.step} is {factor:.1f} times the median"
            if facts["cause"] == "learning_rate":
                text += f"; the learning rate rose to {facts['rate']:.4g},"
                text += f" {facts['rate_factor']:.3g} times what it was"
            self._session.incident("spike", facts["cause"], facts, text)
        self._norms.add(look.total)
        if look.loss is not None:
            self._losses.add(look.loss)

    def _rate_facts(self):
        rates = [rate for rate in self._rates if isinstance(rate, float) and rate > 0]
        if not rates or rates[-1] < RATE_FACTOR * rates[0] or rates[-1] < max(rates):
            return {"cause": "unknown"}
        return {"cause": "learning_rate", "rate": rates[-1], "rate_factor": rates[-1] / rates[0]}


class _Window:
    """Values of the last steps; what is high above them, and above the first ones, is a spike."""

    def __init__(self):
        self._values = collections.deque(maxlen=WINDOW_STEPS)
        self._first_max = 0.0
        self.median = None

    def is_spike(self, value):
        if len(self._values) < WINDOW_STEPS_MIN:
            return False
        # What the median is asked for only where it can matter.
        if value <= max(self._first_max, SPIKE_FACTOR_MAX * max(self._values)):
            return False
        self.median = summarize(list(self._values))["p50"]
        return self.median > 0 and value > SPIKE_FACTOR * self.median

    def add(self, value):
        if len(self._values) < WINDOW_STEPS_MIN:
            self._first_max = max(self._first_max, value)
        self._values.append(value)


class _Pending:
    """Numbers on their way from the device."""

    def __init__(self, step, values, scaling, counts, kept):
        self._step, self._counts, self._kept = step, counts, kept
        scale, self._has_scale = scaling  # of the loss, and whether gradients still have it
        self._is_scaled = scale is not None
        if self._is_scaled:
            values = [*values, scale]
        self._event = None
        self._read = self._start(values)

    @property
    def is_late(self):
        return self._event is not None

    def _start(self, values):
        if not values:
            return torch.zeros(0)
        device = next((v.device for v in values if v.is_cuda), values[0].device)
        together = torch.stack([_moved(v, device) for v in values])
        if device.type != "cuda":
            return together
        there = torch.empty(len(values), pin_memory=True)
        there.copy_(together, non_blocking=True)
        self._event = torch.cuda.Event()
        self._event.record(torch.cuda.current_stream(device))
        return there

    def read(self, is_late):
        if self._event is not None:
            self._event.synchronize()
        numbers = self._read.tolist()
        names, parameters, operators, calls = self._kept
        norm_count, output_count, has_loss = self._counts
        norms = numbers[:norm_count]
        outputs = numbers[norm_count : norm_count + output_count]
        loss = numbers[norm_count + output_count] if has_loss else None
        if self._is_scaled and numbers[-1] > 0:
            norms = [norm / numbers[-1] for norm in norms] if self._has_scale else norms
            loss = None if loss is None else loss / numbers[-1]
        return Look(
            self._step,
            names,
            parameters,
            norms,
            loss,
            outputs,
            self._is_scaled,
            operators,
            calls,
            is_late,
        )


# -------------------------------------------------------------------- the closer look


def diagnose(look, is_repeat_allowed):
    """{cause, ...} of a step whose loss or gradients are not finite: the first that holds of input,
    parameter, forward, loss and backward. Waits for the device."""
    order = []
    for call in look.calls:
        model = inner_model(call.module())
        found = first_bad.bad_input(call)
        if found is None:
            found = first_bad.bad_parameter(model)
            if found is not None and look.is_late:
                return _of_numbers(look)  # the bad step itself may have made them so
        if found is None and is_repeat_allowed and _can_repeat(call, model):
            found, order = first_bad.repeat(call, model)
        if found is not None:
            return found
    if look.loss is not None and not math.isfinite(look.loss):
        return {"cause": "loss", "operators": look.loss_operators, "value": look.loss}
    return _first_bad_gradient(look, order)


def _of_numbers(look):
    """What the read alone says."""
    if not all(math.isfinite(value) for value in look.outputs):
        return {"cause": "forward"}
    if look.loss is not None and not math.isfinite(look.loss):
        return {"cause": "loss", "operators": look.loss_operators, "value": look.loss}
    return {"cause": "backward"}


def _first_bad_gradient(look, order):
    """Backwards run from the last module to the first."""
    place = {name: number for number, name in enumerate(order)}

    def when(number):
        return place.get(_module_of(look.names[number]), -1), number

    if not look.bad_gradients:
        return {"cause": "unknown"}
    first = max(look.bad_gradients, key=when)
    name = look.names[first]
    found = describe_gradient(look.parameters[first]) or {}
    return {"cause": "backward", "parameter": name, "module": _module_of(name), **found}


def describe_gradient(parameter):
    return None if parameter.grad is None else first_bad.describe(_local(parameter.grad))


def place_of(facts):
    """Where it was, as the key that tells incidents apart."""
    for key in ("parameter", "module", "operators", "input"):
        if facts.get(key) not in (None, [], ""):
            return f"{facts['cause']} {facts[key]}"
    return facts["cause"]


def _sentence(facts, step):
    if facts["cause"] in ("forward", "backward") and "nan" not in facts:
        where = f"NaN or Inf were made by the {facts['cause']}; looked at one step later"
        return f"{where}; step {step}, last good step {facts['last_good_step']}"
    what = f"{facts['nan']} NaN and {facts['inf']} Inf" if "nan" in facts else "NaN or Inf"
    if "share" in facts:
        what += f" ({100 * facts['share']:.3g} % of {facts['shape']}, {facts['dtype']})"
    where = {
        "input": lambda: f"came in with input {facts['input']}, samples {facts['samples']}",
        "parameter": lambda: f"were in parameter {facts['parameter']} before the forward",
        "forward": lambda: (
            f"were made by {facts['operator']} in the forward of module"
            f" {facts['module'] or '(the model)'} ({facts['module_class']}, {facts['line']})"
        ),
        "loss": lambda: f"were made by the loss: {' < '.join(facts['operators']) or 'not known'}",
        "backward": lambda: f"were made in the backward, gradient of {facts['parameter']} first",
        "unknown": lambda: "came from a place that is not known",
    }[facts["cause"]]()
    return f"{what} {where}; step {step}, last good step {facts['last_good_step']}"


def _operators_behind(root):
    """Names of the operators that a loss was made by, the last first, up to a layer."""
    names, node = [], root.grad_fn
    while node is not None and len(names) < 8:
        name = node.name().removesuffix("0").removesuffix("Backward")
        names.append(name)
        following = [n for n, _ in node.next_functions if n is not None]
        if not following or "mm" in name.lower() or "conv" in name.lower():
            break
        node = following[0]
    return names


# -------------------------------------------------------------------- small things


def _norms(tensors):
    """Norms of tensors on any devices, in their order."""
    norms = [None] * len(tensors)
    for device in {tensor.device for tensor in tensors}:
        places = [i for i, tensor in enumerate(tensors) if tensor.device == device]
        found = torch._foreach_norm([tensors[i].detach() for i in places], 2, torch.float32)
        for i, norm in zip(places, found, strict=True):
            norms[i] = norm
    return norms


def _moved(value, device):
    if value.dtype == torch.float32 and value.device == device and value.ndim == 0:
        return value
    return value.detach().to(device, torch.float32, non_blocking=True).reshape(())


def _local(grad):
    if grad.is_sparse:
        return grad.coalesce()._values()
    return grad.to_local() if hasattr(grad, "to_local") else grad


def _has_gradient(parameter):
    grad = parameter.grad
    return grad is not None and not grad.is_meta and grad.is_floating_point()


def _are_scaled(scaler, optimizer):
    """Whether gradients still have the scale of the loss."""
    if scaler is None:
        return False
    return scaler._per_optimizer_states[id(optimizer)]["stage"].name == "READY"


def _values(output):
    return output if isinstance(output, torch.Tensor | tuple | list | dict) else vars(output)


def _can_repeat(call, model):
    return call.is_complete and first_bad.can_repeat(model)


def _module_of(name):
    return name.rpartition(".")[0]


def _size_of(norms):
    return lambda i: norms[i] if math.isfinite(norms[i]) else math.inf


def _autocast_of(module):
    parameter = next(module.parameters(), None)
    device = "cpu" if parameter is None else parameter.device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return None
    return device, torch.get_autocast_dtype(device)
