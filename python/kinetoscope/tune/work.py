"""Work: a model with what it is run on, a copy that may be tried out; Runner: one way to do it."""

import contextlib
import copy
import inspect

import torch

from kinetoscope.torch.tensor_tree import mapped, move, tensors_of
from kinetoscope.torch.torch_profiler import call_model
from kinetoscope.torch.training_pipeline import NONE, loss_of, split_batch
from kinetoscope.tune.agreement import Outcome
from kinetoscope.tune.model_copy import copied, refuse_wrapped
from kinetoscope.tune.setting import Setting
from kinetoscope.tune.stopwatch import device_of

SEED = 20_260_101
SCALE_FIRST, SCALE_LAST = 2.0**16, 2.0**-4
SGD_RATE = 1e-3
NUDGE = 2.0**-22


class Work:
    """A copy of the model, on the device of the model, and batches for it.

    batches: [(inputs, target or None)]. Training when `is_training` (default: the model is in
    training mode and has parameters to train), else inference without gradients; where that is
    asked for, in evaluation mode. The program's model and optimizer are left alone. TypeError: no
    module, or one that cannot be copied; ValueError: no batch, or a model of several processes.
    """

    def __init__(self, model, batches, loss_fn=None, optimizer=None, is_training=None):
        _check(model, batches, loss_fn)
        self.source = model
        self.model = copied(model)
        self.device = device_of(model)
        self.loss_fn = loss_fn
        self._optimizer = optimizer
        can_train = any(p.requires_grad for p in model.parameters())
        self.is_training = can_train and (model.training if is_training is None else is_training)
        if is_training is not None and not is_training:
            self.model.eval()
        self.batches = [tuple(move(part, self.device) for part in batch) for batch in batches]
        self._kept = _keep(self.model)
        self.check_mode = None  # of MODES; found by the first one that checks

    @property
    def has_optimizer(self):
        return self._optimizer is not None

    def own_model(self):
        """A further copy, as the program's was."""
        self.restore()
        return copied(self.model)

    def restore(self):
        """The shared copy as it was at first."""
        put_back(self._kept)

    def make_optimizer(self, model, kind=None):
        """The program's for that copy, with the state that it has; None where there is none."""
        if self._optimizer is None:
            return None
        return rebuilt(self._optimizer, self.source, model, kind)


def _check(model, batches, loss_fn):
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"not a torch.nn.Module: {type(model).__name__}")
    refuse_wrapped(model)
    if loss_fn is not None and not callable(loss_fn):
        raise TypeError(f"loss_fn cannot be called: {type(loss_fn).__name__}")
    if not batches:
        raise ValueError("there is no batch to try a model with")


def as_batch(inputs, target=None):
    """(inputs, target) of what a program hands over as a batch, unless it gives both."""
    return (inputs, target) if target is not None else split_batch(inputs)


def batches_of(loader, count):
    """The first batches of a loader, as Work takes them."""
    found = []
    for batch in loader:
        found.append(split_batch(batch))
        if len(found) >= count:
            break
    return found


def _keep(model):
    tensors = [*model.parameters(), *model.buffers()]
    return [(tensor, tensor.detach().clone()) for tensor in tensors]


def put_back(kept):
    with torch.no_grad():
        for tensor, value in kept:
            tensor.copy_(value)
            tensor.grad = None


def rebuilt(optimizer, source, model, kind=None):
    """An optimizer of the same class, groups and state for a copy of the model. kind: fused,
    foreach or loop, None as it is. ValueError: it has parameters that are not the model's."""
    numbers = {id(p): number for number, p in enumerate(source.parameters())}
    theirs = list(model.parameters())
    state = copy.deepcopy(optimizer.state_dict())
    groups = []
    for group, saved in zip(optimizer.param_groups, state["param_groups"], strict=True):
        if any(id(p) not in numbers for p in group["params"]):
            raise ValueError("the optimizer has parameters that are not of this model")
        saved.update(_switches(kind))
        options = {key: value for key, value in saved.items() if key != "params"}
        groups.append({**options, "params": [theirs[numbers[id(p)]] for p in group["params"]]})
    known = inspect.signature(type(optimizer)).parameters
    options = {k: v for k, v in {**optimizer.defaults, **_switches(kind)}.items() if k in known}
    made = type(optimizer)(groups, **options)
    made.load_state_dict(state)
    return made


def _switches(kind):
    if kind is None:
        return {}
    return {"fused": kind == "fused", "foreach": kind == "foreach"}


# Ways to make a model draw no random numbers, the one that changes least first.
MODES = ("none", "dropout", "all")


def _drawing(model, mode):
    if mode == "none":
        return []
    kinds = torch.nn.modules.dropout._DropoutNd
    return [m for m in model.modules() if mode == "all" or isinstance(m, kinds)]


@contextlib.contextmanager
def quiet(model, mode):
    """In the block the modules that `mode` names (of MODES) are in evaluation mode."""
    changed = [m for m in _drawing(model, mode) if m.training]
    for module in changed:
        module.training = False
    try:
        yield
    finally:
        for module in changed:
            module.training = True


class Runner:
    """Does the work in one setting. Raises what torch raises, at once or in its first step."""

    def __init__(self, work, setting=None):
        self.work = work
        self.setting = setting or Setting()
        model = work.own_model() if self.setting.needs_own_model else work.model
        self.model = self.setting.change_model(model)
        self._kept = _keep(self.model) if self.model is not work.model else work._kept
        self._forward = self.setting.compiled(self.model)
        self.batches = [(self.setting.change_inputs(i), target) for i, target in work.batches]
        self._position = 0
        self._optimizer = None
        self._scaler = None
        self.scale = 1.0  # of the loss, where that is needed

    @classmethod
    def of_model(cls, work, model):
        """Does the work with a model that was made elsewhere, which may be a compiled one."""
        runner = cls(work)
        runner.model = getattr(model, "_orig_mod", model)
        runner._kept = _keep(runner.model)
        runner._forward = model
        return runner

    # ---------------------------------------------------------------- what is timed

    def start(self):
        """Before steps are timed: the model as it was at first, and an optimizer of its own."""
        self.restore()
        if self.work.is_training and self._optimizer is None:
            self._optimizer = self.work.make_optimizer(self.model, self.setting.optimizer)
            if self.setting.half is torch.float16 and self._optimizer is not None:
                self._scaler = make_scaler(self.work.device, self.scale)

    @contextlib.contextmanager
    def stepping(self):
        """Around steps: the model as it was at first, and what the setting wants."""
        self.start()
        with self.setting.around_steps():
            yield

    def step_on(self, batch):
        """One step with a batch of a loader."""
        batch = tuple(move(part, self.work.device) for part in split_batch(batch))
        return self._step((self.setting.change_inputs(batch[0]), batch[1]))

    def step(self):
        """One step with the next batch, as the program would make it."""
        batch = self.batches[self._position % len(self.batches)]
        self._position += 1
        return self._step(batch)

    def _step(self, batch):
        if not self.work.is_training:
            return self._infer(batch)
        self._zero_grad()
        _, loss = self._compute(batch)
        if self._scaler is None:
            (loss * self.scale if self.scale != 1 else loss).backward()
        else:
            self._scaler.scale(loss).backward()
        self._update()
        return None

    def _update(self):
        if self._optimizer is None:
            return
        if self._scaler is None:
            self._optimizer.step()
        else:
            self._scaler.step(self._optimizer)
            self._scaler.update()

    def infer(self, number=0):
        """A forward without gradients."""
        return self._infer(self.batches[number])

    def _infer(self, batch):
        with torch.no_grad():
            return self._call(batch[0])

    def _call(self, inputs):
        self._mark_step()
        with self.setting.around_forward(self.work.device.type):
            return call_model(self._forward, inputs)

    def _compute(self, batch):
        """(output, loss)"""
        inputs, target = batch
        self._mark_step()
        with self.setting.around_forward(self.work.device.type):
            output = call_model(self._forward, inputs)
            kind, loss = loss_of(self.work.loss_fn, output, target)
        return output, probe(output) if kind == NONE else loss

    def _mark_step(self):
        """Says to replayed CUDA graphs that their last outputs may be overwritten."""
        if self._forward is self.model:
            return
        mark = getattr(getattr(torch, "compiler", None), "cudagraph_mark_step_begin", None)
        if mark is not None:
            mark()

    def _zero_grad(self):
        self.model.zero_grad(set_to_none=True)

    def restore(self):
        """Parameters and buffers as at first, no gradients."""
        put_back(self._kept)

    def close(self):
        """What it has besides the shared model goes with it."""
        self._optimizer = self._scaler = self._forward = None
        self.restore()

    # ---------------------------------------------------------------- what is compared

    def outcome(self, mode, seed=SEED, number=0):
        """What one step gives from the model as it was at first, with random numbers of the seed;
        `number` is that of the batch."""
        self.restore()
        with self.setting.around_steps(), quiet(self.model, mode):
            torch.manual_seed(seed)
            if not self.work.is_training:
                return Outcome(named(self._infer(self.batches[number])))
            return self._trained_outcome(self.batches[number], seed)

    def first_overflow(self, mode, number=0):
        """Name of the module that gives the first output that is not finite, None where that cannot
        be seen: what is compiled has no modules in it any more."""
        if self._forward is not self.model:
            return None
        names = []

        def look(name):
            def hook(module, inputs, output):
                floats = (t for t in tensors_of(output) if t.is_floating_point())
                if any(not bool(t.isfinite().all()) for t in floats):
                    names.append(name)

            return hook

        handles = [m.register_forward_hook(look(n)) for n, m in self.model.named_modules() if n]
        try:
            self.restore()
            with self.setting.around_steps(), quiet(self.model, mode):
                self.infer(number)
        finally:
            for handle in handles:
                handle.remove()
        return names[0] if names else None

    def rounded_outcome(self, mode, number=0):
        """The same with parameters and inputs that are a few units of the last place off: what
        sums in another order may do to results, where a model makes much of little."""
        generator = torch.Generator().manual_seed(SEED)
        kept = self.batches[number]
        self.restore()
        try:
            nudged = mapped(lambda tensor: _nudge(tensor, generator), kept[0])
            self.batches[number] = (nudged, kept[1])
            originals = self._kept
            self._kept = [(t, _nudge(value, generator)) for t, value in originals]
            return self.outcome(mode, number=number)
        finally:
            self.batches[number], self._kept = kept, originals
            self.restore()

    def _trained_outcome(self, batch, seed):
        """The loss of a float16 step is scaled by as much as its gradients bear."""
        is_scaled = self.setting.half is torch.float16
        self.scale = SCALE_FIRST if is_scaled else 1.0
        while True:
            self.restore()
            torch.manual_seed(seed)
            output, loss = self._compute(batch)
            (loss * self.scale).backward()
            found = Outcome(
                [*named(output), ("loss", loss.detach().float().clone())],
                self._gradients(),
                [(name, b.detach().clone()) for name, b in self.model.named_buffers()],
            )
            fits = all(bool(gradient.isfinite().all()) for _, gradient in found.gradients)
            if fits or not is_scaled or self.scale <= SCALE_LAST:
                return found
            self.scale /= 4

    def _gradients(self):
        found = ((name, p.grad) for name, p in self.model.named_parameters())
        return [(n, g.detach().float() / self.scale) for n, g in found if g is not None]

    def losses(self, count, seed=SEED):
        """Losses of a short training with the program's optimizer (or, without one, plain SGD)."""
        self.restore()
        optimizer = self.work.make_optimizer(self.model, self.setting.optimizer)
        optimizer = optimizer or torch.optim.SGD(self.model.parameters(), lr=SGD_RATE)
        is_scaled = self.setting.half is torch.float16
        scaler = make_scaler(self.work.device, self.scale) if is_scaled else None
        found = []
        with self.setting.around_steps():
            torch.manual_seed(seed)
            for number in range(count):
                self._zero_grad()
                _, loss = self._compute(self.batches[number % len(self.batches)])
                _train(loss, optimizer, scaler)
                found.append(loss.detach().float().clone())
        self._zero_grad()
        return torch.stack(found).tolist()


def _train(loss, optimizer, scaler):
    if scaler is None:
        loss.backward()
        optimizer.step()
    else:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def _nudge(tensor, generator):
    """Each element of a float32 or float64 tensor by NUDGE of itself, up or down."""
    if tensor.dtype not in (torch.float32, torch.float64):
        return tensor
    signs = torch.randint(0, 2, tensor.shape, generator=generator).to(tensor) * 2 - 1
    return tensor * (1 + NUDGE * signs)


def make_scaler(device, scale):
    """A GradScaler that starts with that scale."""
    general = getattr(torch.amp, "GradScaler", None)  # since torch 2.3
    if general is not None:
        return general(device.type, init_scale=scale)
    return torch.cuda.amp.GradScaler(init_scale=scale, enabled=device.type == "cuda")


def precisions_of(model, output):
    """Names of the number formats in which a model has parameters, or gives results."""
    tensors = [*model.parameters(), *tensors_of(output)]
    return {str(t.dtype).removeprefix("torch.") for t in tensors if t.is_floating_point()}


def named(output):
    """[(number, tensor)] of an output, copies that no later step changes."""
    copies = (tensor.detach().clone() for tensor in tensors_of(output))
    plain = (t.float() if t.is_floating_point() else t for t in copies)
    return [(str(number), tensor) for number, tensor in enumerate(plain)]


def probe(output):
    """A loss for outputs that nothing else judges: a sum of them in which each element counts
    differently, so that its gradients tell what became of each."""
    total = None
    for tensor in tensors_of(output):
        if not tensor.is_floating_point() or not tensor.requires_grad:
            continue
        weights = torch.arange(tensor.numel(), device=tensor.device).remainder(7).sub(3.25)
        part = (tensor.flatten().float() * weights).sum() / max(tensor.numel(), 1)
        total = part if total is None else total + part
    if total is None:
        raise ValueError("no output of this model has a gradient: it cannot be trained")
    return total
