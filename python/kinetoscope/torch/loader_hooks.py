"""Tells the recorder when the program asks a DataLoader for a batch, and when an epoch is over."""

import functools
from importlib import import_module

from kinetoscope.torch.step_finder import LOADER


def hook_loaders(recorder):
    """The request comes before torch's own annotation begins, so that no step cuts it."""
    iterator_class = import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
    next_batch = iterator_class.__next__

    @functools.wraps(next_batch)
    def asked(iterator):
        key = id(getattr(iterator, "_dataset", None))
        recorder.heard(LOADER, key)
        meter = recorder.loader_meter
        began = meter and meter.begin()
        try:
            batch = next_batch(iterator)
        except StopIteration:
            recorder.epoch_ended(key)
            raise
        finally:
            if meter:
                meter.end(began, iterator)
        if meter:
            meter.see(batch)
        return batch

    iterator_class.__next__ = asked
