"""TorchProfilingHooks: what the forward and the backward of single modules take.

The forward is timed between a module's own hooks. The backward is timed between nodes of the graph
that the module's forward made: it begins with the node of an output, and ends behind the node that
was made first, which is the last one that the engine runs. So nothing is added to the graph, and
gradients are the same bit for bit. (torch's full backward hooks wrap inputs and outputs, break what
is done in place on views, and of two modules that share an input time both.)

While torch.compile traces a module its hooks do nothing, so it compiles what it would without them;
inside of a compiled region single modules cannot be told apart.
"""

from time import perf_counter_ns

import torch

import kinetoscope
from kinetoscope._engine import summarize
from kinetoscope.torch.tensor_tree import tensors_of

FORWARD, BACKWARD = "forward", "backward"
_BEGINS = "kinetoscope.begins"  # key in the metadata of a node


class TorchProfilingHooks:
    """Times of modules, as regions "forward_<Class>" and "backward_<Class>" of a recording, with
    the module's `name` attached, and in get_times().

    `profiler`: a CodeProfiler, whose config's profile_model_forward can switch forward hooks off;
    may be missing. `hooks`: handles of what is registered; cleanup() removes all of it, and so does
    leaving a with block.
    """

    def __init__(self, profiler=None):
        self._config = getattr(profiler, "config", None)
        self.hooks = []
        self._switch = _Switch()
        self._spans = {}  # (label, way) -> _Spans

    def register_forward_hook(self, module, name=None):
        """Times each forward of the module. `name`: its label, else its class. Returns the handle.
        TypeError: it is no module."""
        label = _label(module, name)
        if self._config is not None and not self._config.profile_model_forward:
            return None
        timer = _Forward(self._spans_of(label, module, FORWARD))
        # The first to begin and the last to end of all hooks.
        self.hooks.append(module.register_forward_pre_hook(timer.begin, prepend=True))
        self.hooks.append(module.register_forward_hook(timer.end, always_call=True))
        return self.hooks[-1]

    def register_backward_hook(self, module, name=None):
        """Times each backward of the module. As register_forward_hook."""
        label = _label(module, name)
        timer = _Backward(self._spans_of(label, module, BACKWARD), self._switch)
        self.hooks.append(module.register_forward_pre_hook(timer.before_forward))
        self.hooks.append(module.register_forward_hook(timer.after_forward, always_call=True))
        return self.hooks[-1]

    def register_model_hooks(self, model):
        """Both, for the model and all modules in it, under their dotted names. Returns self."""
        for name, module in _modules(model):
            self.register_forward_hook(module, name or type(module).__name__)
            self.register_backward_hook(module, name or type(module).__name__)
        return self

    def get_times(self):
        """{name: {"forward": {count, total, mean, std, min, max, p50, ...}, "backward": {...}}} of
        the calls since registration, in seconds; on a GPU by its own clock, which waits for it."""
        times = {}
        for (label, way), spans in self._spans.items():
            times.setdefault(label, {})[way] = spans.summary()
        return times

    def cleanup(self):
        """Removes all hooks; what is left in graphs whose backward has not come does nothing any
        more. Times are kept."""
        for handle in self.hooks:
            handle.remove()
        self.hooks.clear()
        self._switch.is_on = False
        self._switch = _Switch()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cleanup()
        return False

    def _spans_of(self, label, module, way):
        key = (label, way)
        if key not in self._spans:
            self._spans[key] = _Spans(label, type(module).__name__, way)
        return self._spans[key]


class _Switch:
    is_on = True


def _label(module, name):
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"hooks are for a torch.nn.Module, not {type(module).__name__}")
    return name or type(module).__name__


def _modules(model):
    _label(model, None)
    return list(model.named_modules())


def _is_compiling():
    return torch.compiler.is_compiling()


class _Spans:
    """All spans of one module in one way: a region each, and its length."""

    def __init__(self, label, class_name, way):
        category = f"{way}_pass"
        self._region = kinetoscope.profile_operation(f"{way}_{class_name}", category)
        self._label = label
        self._lengths_s = []
        self._pairs = []  # of CUDA events, until somebody asks

    def begin(self, device):
        self._region.begin()
        self._region.set("name", self._label)
        if device is not None and device.type == "cuda":
            return _event(device), device
        return perf_counter_ns(), None

    def end(self, began):
        start, device = began
        if device is None:
            self._lengths_s.append((perf_counter_ns() - start) / 1e9)
        else:
            self._pairs.append((start, _event(device)))
        self._region.end()

    def summary(self):
        for start, end in self._pairs:
            end.synchronize()
            self._lengths_s.append(start.elapsed_time(end) / 1e3)
        self._pairs = []
        return summarize(self._lengths_s)


def _event(device):
    event = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(device))
    return event


def _device_of(*values):
    for tensor in tensors_of(values):
        return tensor.device
    return None


class _Forward:
    def __init__(self, spans):
        self._spans = spans
        self._open = []  # a module can call itself

    def begin(self, module, args):
        if not _is_compiling():
            device = _device_of(args, list(module._parameters.values()))
            self._open.append(self._spans.begin(device))

    def end(self, module, args, output):
        if not _is_compiling() and self._open:
            self._spans.end(self._open.pop())


class _Backward:
    def __init__(self, spans, switch):
        self._spans = spans
        self._switch = switch
        self._first = []  # number that the first node of an open forward would get

    def before_forward(self, module, args):
        if not _is_compiling():
            self._first.append(_next_sequence_number())

    def after_forward(self, module, args, output):
        if _is_compiling() or not self._first:
            return
        first = self._first.pop()
        if first is None:
            return
        tensors = [t for t in tensors_of(output) if t.grad_fn is not None]
        starts = [t.grad_fn for t in tensors if _number(t.grad_fn) >= first]
        if starts:
            call = _BackwardCall(self._spans, tensors[0].device, self._switch)
            call.watch(starts, _earliest(starts, first))


class _BackwardCall:
    """The backward of one call of a module. A graph that is kept can be run again."""

    def __init__(self, spans, device, switch):
        self._spans = spans
        self._device = device
        self._switch = switch
        self._began = None

    def watch(self, starts, last):
        for node in dict.fromkeys(starts):
            self._add_begin(node)
        last.register_hook(self._end)

    def _add_begin(self, node):
        """An outer module's forward returns after an inner one's, and its backward begins first:
        one hook on the node begins all of them, the latest first."""
        begins = node.metadata.setdefault(_BEGINS, [])
        begins.append(self._begin)
        if len(begins) == 1:
            node.register_prehook(_make_begin_all(begins))

    def _begin(self):
        if self._began is None and self._switch.is_on:
            self._began = self._spans.begin(self._device)

    def _end(self, grad_inputs, grad_outputs):
        began, self._began = self._began, None
        if began is not None:
            self._spans.end(began)


def _make_begin_all(begins):
    def begin_all(grad_outputs):
        for begin in reversed(begins):
            begin()

    return begin_all


def _number(node):
    return node._sequence_nr()


def _next_sequence_number():
    """That of the next node of this thread; None while gradients are off."""
    if not torch.is_grad_enabled():
        return None
    return _number(torch.empty(0, requires_grad=True).view(0).grad_fn)


def _earliest(starts, first):
    """The node that was made first, of those between the outputs and what was there before."""
    seen = set(starts)
    waiting = list(seen)
    earliest = waiting[0]
    while waiting:
        node = waiting.pop()
        if _number(node) < _number(earliest):
            earliest = node
        for following, _ in node.next_functions:
            is_ours = following is not None and first <= _number(following) < _ACCUMULATES
            if is_ours and following not in seen:
                seen.add(following)
                waiting.append(following)
    return earliest


_ACCUMULATES = 2**63  # nodes that add to .grad have the largest number that there is
