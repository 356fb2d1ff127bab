"""Whether a setting of a DataLoader gives the batches that the baseline gives."""

import itertools

import torch

from kinetoscope.torch.tensor_tree import tensors_of

BATCHES = 2


class Check:
    """Keeps the first batches of the baseline. Where they are not the same twice, as with random
    crops, only shapes and types are compared: numbers of workers are drawn from other seeds."""

    def __init__(self, baseline):
        self._batch_size = baseline.options.get("batch_size", 1)
        self._right = _first_batches(baseline)
        again = _first_batches(baseline)
        self.is_random = _difference(self._right, again) is not None

    def reason(self, variant):
        """None, or why its batches are not those of the baseline."""
        if variant.options.get("batch_size", 1) != self._batch_size:
            return None
        found = _first_batches(variant)
        return _difference(self._right, found, self.is_random)


def _first_batches(variant):
    torch.manual_seed(0)
    loader = variant.make()
    generator = variant.options.get("generator")
    if generator is not None:
        generator.manual_seed(0)
    return [list(tensors_of(batch)) for batch in itertools.islice(loader, BATCHES)]


def _difference(right, found, is_random=False):
    if len(right) != len(found):
        return f"{len(found)} of {len(right)} batches came"
    for number, (expected, got) in enumerate(zip(right, found, strict=True)):
        if len(expected) != len(got):
            return f"batch {number} has {len(got)} tensors in place of {len(expected)}"
        for a, b in zip(expected, got, strict=True):
            if a.dtype != b.dtype or (a.shape != b.shape and not is_random):
                kinds = f"{b.dtype} {tuple(b.shape)} in place of {a.dtype} {tuple(a.shape)}"
                return f"batch {number} has {kinds}"
            if not is_random and not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)):
                return f"batch {number} has other values than that of the baseline"
    return None
