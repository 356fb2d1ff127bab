"""Whether two ways to run a model give the same results, within what their number format allows."""

import dataclasses
import itertools
import math
from dataclasses import dataclass, field

import torch

CANNOT = "{} of the model as it is has no number in it, and cannot be compared"
MISSED_SHARE = 1e-4  # of all gradients: a smaller one may be zero elsewhere


@dataclass(frozen=True)
class Tolerance:
    """Largest error that is fine, relative: of each output, of the gradients, of each loss of a
    short training (to the first one)."""

    outputs: float
    gradients: float
    losses: float


# float32: sums in another order. The others: some units of the last place of their mantissa (tf32
# and float16 10 bits, bfloat16 7), as they add up in a deep network. Gradients may be farther off:
# a rectifier whose input is rounded across zero passes another gradient altogether, and of n units
# some n * 2^-8 do in bfloat16, which is the root of that in the length of the vector.
TOLERANCES = {
    "float32": Tolerance(1e-4, 2e-3, 1e-2),
    "tf32": Tolerance(5e-3, 1e-1, 2e-2),
    "float16": Tolerance(1e-2, 1.5e-1, 5e-2),
    "bfloat16": Tolerance(3e-2, 3e-1, 5e-2),
    "int8": Tolerance(5e-2, 0.0, 0.0),
    "int4": Tolerance(2e-1, 0.0, 0.0),
}


def tolerance_of(*names, given=None):
    """The tolerance of number formats that are used together: in each part that of the coarsest.
    `given` is a number that holds for all parts."""
    if given is not None:
        return Tolerance(given, given, given)
    known = [TOLERANCES[name] for name in names if name in TOLERANCES]
    parts = (f.name for f in dataclasses.fields(Tolerance))
    return Tolerance(*(max(getattr(one, part) for one in known) for part in parts))


@dataclass
class Outcome:
    """What one step gave: named tensors, in order."""

    outputs: list[tuple[str, torch.Tensor]]
    gradients: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    buffers: list[tuple[str, torch.Tensor]] = field(default_factory=list)


@dataclass(frozen=True)
class Agreement:
    """`reason`: None, or why the results are not the same. `error`: largest relative error of an
    output, None when it cannot be said. `is_unknown`: nothing can be said, since those of the right
    one are NaN."""

    error: float | None
    reason: str | None = None
    gradient_error: float | None = None
    is_overflow: bool = False
    is_unknown: bool = False


def compare_outcomes(right, other, tolerance, noise=0.0):
    """An Agreement. `noise`: how far results of the right one move by rounding alone; four times
    of it is no fault of the other."""
    reason = _shapes_differ(right, other)
    if reason is not None:
        return Agreement(None, reason)
    reason = _not_finite(right, other)
    if reason is not None:
        return Agreement(None, reason, is_overflow=True)
    reason = _elsewhere(right, other)
    if reason is not None:
        return Agreement(None, reason)
    unknown = nan_parts(right, is_whole=True)
    if unknown:
        return Agreement(None, CANNOT.format(unknown[0]), is_unknown=True)
    error, worst = _largest(right.outputs, other.outputs)
    limit = max(tolerance.outputs, 4 * noise)
    if error > limit:
        return Agreement(error, _too_far(f"output {worst}", error, limit))
    gradient_error, worst = _gradient_error(right.gradients, other.gradients)
    limit = max(tolerance.gradients, 4 * noise)
    if gradient_error is not None and gradient_error > limit:
        reason = _too_far(f"gradient of {worst}", gradient_error, limit)
        return Agreement(error, reason, gradient_error)
    of_buffers, worst = _largest(right.buffers, other.buffers)
    limit = max(tolerance.gradients, 4 * noise)
    if of_buffers > limit:
        reason = _too_far(f"buffer {worst} after a step", of_buffers, limit)
        return Agreement(error, reason, gradient_error)
    return Agreement(error, None, gradient_error)


def _too_far(what, error, limit):
    return f"{what} is off by {error:.2g} of its size, more than {limit:.2g}"


def _parts(outcome):
    yield from (("output", *entry) for entry in outcome.outputs)
    yield from (("gradient of", *entry) for entry in outcome.gradients)
    yield from (("buffer", *entry) for entry in outcome.buffers)


def _shapes_differ(right, other):
    pairs = itertools.zip_longest(_parts(right), _parts(other))
    for expected, found in pairs:
        if expected is None or found is None or expected[:2] != found[:2]:
            what = " ".join((expected or found)[:2])
            return f"{what} is there in one of the two only"
        if expected[2].shape != found[2].shape:
            shapes = f"{tuple(found[2].shape)} in place of {tuple(expected[2].shape)}"
            return f"{' '.join(expected[:2])} has the shape {shapes}"
    return None


def _not_finite(right, other):
    for (kind, name, expected), (*_, found) in zip(_parts(right), _parts(other), strict=True):
        if not found.is_floating_point():
            continue
        count = int((~found.isfinite() & expected.isfinite()).sum())
        if count > 0:
            what = f"{kind} {name}"
            return f"{what} overflows: {count} of {found.numel()} values are not finite"
    return None


def _elsewhere(right, other):
    """Where only the right one is NaN or infinite, or the other one in another way."""
    for (kind, name, expected), (*_, found) in zip(_parts(right), _parts(other), strict=True):
        if not expected.is_floating_point():
            continue
        is_same = torch.where(expected.isnan(), found.isnan(), found == expected)
        count = int((~expected.isfinite() & ~is_same).sum())
        if count > 0:
            return f"{kind} {name} has other values in {count} places that are not finite"
    return None


def nan_parts(outcome, is_whole=False):
    """Names of what has NaN in it, or with is_whole nothing but what is not finite, some of it
    NaN."""
    names = []
    for kind, name, tensor in _parts(outcome):
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            if not (is_whole and bool(tensor.isfinite().any())):
                names.append(f"{kind} {name}")
    return names


def _largest(right, other):
    """(largest relative error, name of the tensor that has it)"""
    worst = (0.0, None)
    for (name, expected), (_, found) in zip(right, other, strict=True):
        error = _error_of(expected, found)
        worst = max(worst, (error, name), key=lambda pair: pair[0])
    return worst


def _error_of(expected, found):
    if expected.numel() == 0:
        return 0.0
    if not expected.is_floating_point():
        return float((expected != found).float().mean())
    distance = _distance(expected, found)
    return 0.0 if distance == 0 else distance / max(_size(expected), 1e-30)


def _distance(expected, found):
    """What is infinite or NaN in both, as in a mask, is no difference."""
    return _norm(torch.where(expected.isfinite(), found - expected, 0.0))


def _size(tensor):
    return _norm(torch.where(tensor.isfinite(), tensor, 0.0))


def _norm(tensor):
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64))


def _gradient_error(right, other):
    """(the error of all gradients as one vector, name of the one that is farthest off). By itself
    a gradient says little: that of a bias before a batch norm is nothing but rounding. One that is
    missing altogether counts in full."""
    if not right:
        return None, None
    norms = [_size(gradient) for _, gradient in right]
    whole = _length(norms)
    gaps = []
    for (name, expected), (_, found), norm in zip(right, other, norms, strict=True):
        gaps.append(_distance(expected, found))
        if norm > MISSED_SHARE * whole and not bool(found.any()):
            return 1.0, name
    worst = max(range(len(gaps)), key=gaps.__getitem__)
    return _length(gaps) / max(whole, 1e-30), right[worst][0]


def _length(norms):
    return sum(norm**2 for norm in norms) ** 0.5


def compare_losses(right, other, tolerance, spread=0.0):
    """None, or why two trainings are not the same. `spread`: how far losses of the right one are
    apart when its random numbers are others; twice of it is fine. Behind a loss that is NaN or
    infinite in both, nothing is compared."""
    limit = tolerance.losses * max(abs(right[0]), 1e-12) + 2 * spread
    for step, (expected, found) in enumerate(zip(right, other, strict=True)):
        if not math.isfinite(expected):
            is_same = math.isnan(found) if math.isnan(expected) else found == expected
            return None if is_same else _other_loss(step, expected, found, 0.0)
        if not abs(found - expected) <= limit:
            return _other_loss(step, expected, found, limit)
    return None


def _other_loss(step, expected, found, limit):
    return (
        f"the loss of step {step + 1} is {found:.6g} in place of {expected:.6g}, "
        f"farther than {limit:.2g}"
    )


def finite_count(losses):
    """How many there are before the first that is NaN or infinite."""
    return next((n for n, loss in enumerate(losses) if not math.isfinite(loss)), len(losses))
