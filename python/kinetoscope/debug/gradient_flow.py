"""How gradients flow: vanishing, exploding, none at all, and dead rectifiers.

Norms are those that gradient health reads anyway. Rectifiers have hooks in sampled steps only.
"""

import functools

import torch

from kinetoscope.debug.model_parts import parts_of

RECTIFIERS = (torch.nn.ReLU, torch.nn.ReLU6)
FIRST_STEPS = 8  # all of which are sampled, then one in SAMPLE_EVERY
SAMPLE_EVERY = 50
DEAD_SHARE_MIN = 0.5
LOOKS_MIN = 5  # in a row
VANISHING = 1e-7  # of the largest norm of a matrix
EXPLODING = 1e4  # of the median norm, and above 1e3


class GradientFlow:
    def __init__(self, session):
        self._session = session
        self._counts = {}  # (what, name) -> looks in a row
        self._alive = {}  # name -> (units that were above 0, calls)
        self._handles = []

    # ---------------------------------------------------------------- norms

    def looked(self, look):
        if look.is_bad:
            return
        sized = [
            (norm, name)
            for norm, name, p in zip(look.norms, look.names, look.parameters, strict=True)
            if p.ndim > 1  # a bias in front of a normalisation has none by right
        ]
        if not sized:
            return
        norms = sorted(norm for norm, _ in sized)
        facts = {"grad_norm_min": norms[0], "grad_norm_max": norms[-1], "layers": len(norms)}
        facts |= {"grad_norm_first": sized[0][0], "grad_norm_last": sized[-1][0]}
        self._session.write("backward_pass", facts, step=look.step)
        largest, median = norms[-1], norms[len(norms) // 2]
        for norm, name in sized:
            self._count("zero", name, norm, largest > 0 and norm == 0)
            self._count("vanishing", name, norm, 0 < norm < VANISHING * largest)
            self._count("exploding", name, norm, norm > max(1e3, EXPLODING * median))

    def _count(self, what, name, norm, holds):
        key = what, name
        self._counts[key] = self._counts.get(key, 0) + 1 if holds else 0
        if self._counts[key] != LOOKS_MIN:
            return
        facts = {"cause": what, "parameter": name, "norm": norm, "looks": LOOKS_MIN}
        text = f"gradient of {name} is {what} in {LOOKS_MIN} steps in a row (norm {norm:.3g})"
        self._session.incident("gradient_flow", f"{what} {name}", facts, text)

    # ---------------------------------------------------------------- rectifiers

    def step_ended(self, optimizer, scaler):
        self._remove()
        step = self._session.step
        if step < FIRST_STEPS or step % SAMPLE_EVERY < LOOKS_MIN:
            self._attach()
        if step == FIRST_STEPS or (step > FIRST_STEPS and step % SAMPLE_EVERY == LOOKS_MIN):
            self._judge()

    def finish(self):
        self._remove()

    def _attach(self):
        for model in self._session.models():
            for name, module in parts_of(model):
                if isinstance(module, RECTIFIERS):
                    see = functools.partial(self._see, name or type(module).__name__)
                    self._handles.append(module.register_forward_hook(see))

    def _remove(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _see(self, name, module, args, output):
        if torch.compiler.is_compiling() or not module.training or output.ndim < 2:
            return
        unit_axis = 1 if output.ndim == 4 else output.ndim - 1
        axes = [axis for axis in range(output.ndim) if axis != unit_axis]
        alive = (output.detach().amax(axes)) > 0
        before, calls = self._alive.get(name, (None, 0))
        if before is not None and before.shape == alive.shape:
            alive = alive | before
        self._alive[name] = alive, calls + 1

    def _judge(self):
        for name, (alive, calls) in self._alive.items():
            dead = int((~alive).sum())
            share = dead / alive.numel()
            if calls < LOOKS_MIN or share <= DEAD_SHARE_MIN:
                continue
            facts = {"cause": "dead_relu", "module": name, "dead": dead, "share": share}
            text = f"{dead} units of {name} ({100 * share:.3g} %) were 0 in {calls} forwards"
            self._session.incident("gradient_flow", f"dead {name}", facts, text)
        self._alive = {}
