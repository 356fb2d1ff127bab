"""Whether a setting of a DataLoader gives the batches that the baseline gives."""

import random
import sys
from itertools import islice

import torch
from torch.utils.data import DataLoader, IterableDataset

from kinetoscope.torch.state_guard import keep_random, kept_random
from kinetoscope.torch.tensor_tree import tensors_of
from kinetoscope.tune.loader_timing import EmptyEpoch

BATCHES = 2
SEED, OTHER_SEED = 0, 1


class Check:
    """Keeps the first batches of the baseline, drawn from the states that all generators have now:
    any loader gives the same from these. Where samples are random in themselves, as with random
    crops, workers draw other ones, and only kinds are compared: shapes and types."""

    def __init__(self, baseline):
        self._batch_size = baseline.options.get("batch_size", 1)
        self._begin = keep_random(baseline.options)
        self._right = self._first_batches(baseline)
        samples = _samples(baseline, SEED), _samples(baseline, OTHER_SEED)
        self.is_random = _difference(*samples) is not None
        # Crops may differ in size from seed to seed: then that of none is right.
        self._has_shapes = _difference(*samples, is_random=True) is None

    def reason(self, variant):
        """None, or why its batches are not those of the baseline."""
        if variant.options.get("batch_size", 1) != self._batch_size:
            return None
        found = self._first_batches(variant)
        return _difference(self._right, found, self.is_random, self._has_shapes)

    def _first_batches(self, variant):
        with kept_random(variant.options):
            self._begin()
            return _taken(variant.make())


def _samples(variant, seed):
    """Batches of the same samples, whatever the seed is. Generators that a data set has of its own
    go on."""
    with kept_random():
        order = _order(variant)
        _seed_all(seed)
        return _taken(DataLoader(**order))


def _order(variant):
    """Arguments of a loader that takes the first samples of this one."""
    options = {name: variant.options.get(name) for name in ("dataset", "collate_fn")}
    if isinstance(options["dataset"], IterableDataset):  # which has the order in itself
        names = ("batch_size", "drop_last")
        return options | {n: variant.options[n] for n in names if n in variant.options}
    with kept_random(variant.options):
        _seed_all(SEED)
        loader = variant.make()
        if loader.batch_sampler is not None:
            return options | {"batch_sampler": list(islice(loader.batch_sampler, BATCHES))}
        return options | {"batch_size": None, "sampler": list(islice(loader.sampler, BATCHES))}


def _seed_all(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def _taken(loader):
    batches = [list(tensors_of(batch)) for batch in islice(loader, BATCHES)]
    if not batches:
        raise EmptyEpoch("the loader gives no batch: it is empty, or a stream that is at its end")
    return batches


def _difference(right, found, is_random=False, has_shapes=True):
    if len(right) != len(found):
        return f"{len(found)} of {len(right)} batches came"
    for number, (expected, got) in enumerate(zip(right, found, strict=True)):
        if len(expected) != len(got):
            return f"batch {number} has {len(got)} tensors in place of {len(expected)}"
        for a, b in zip(expected, got, strict=True):
            if _kind(a, has_shapes) != _kind(b, has_shapes):
                kinds = f"{b.dtype} {tuple(b.shape)} in place of {a.dtype} {tuple(a.shape)}"
                return f"batch {number} has {kinds}"
            if not is_random and not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)):
                return f"batch {number} has other values than that of the baseline"
    return None


def _kind(tensor, has_shapes):
    return tensor.dtype, tensor.shape if has_shapes else tensor.dim()
