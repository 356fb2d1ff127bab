"""Batches as they come from a DataLoader: sizes, numbers that are not finite, labels that no class
has. Batches on the CPU are looked at, which is where loaders make them."""

import math

import torch

from kinetoscope.debug import first_bad
from kinetoscope.torch.tensor_tree import tensors_of

BAD_MAX = 10
IGNORED = -100  # what torch's losses leave out


class BatchCheck:
    def __init__(self, session):
        self._session = session
        self._batch = None
        self._indices = None
        self._suspect = None  # a label that is wrong if the loss says so, too
        self._count = 0

    def batch(self, batch, indices):
        self._batch, self._indices = batch, indices
        self._count += 1
        tensors = [t for t in tensors_of(batch) if t.device.type == "cpu"]
        facts = {"batch": self._count, "shapes": [list(t.shape) for t in tensors]}
        facts["bytes"] = sum(t.numel() * t.element_size() for t in tensors)
        self._session.write("data_loading", facts)
        for number, tensor in enumerate(tensors):
            if first_bad.is_float(tensor) and not math.isfinite(_sum_of(tensor)):
                self._look_closer(number, tensor)

    def _look_closer(self, number, tensor):
        rows = first_bad.bad_rows(tensor)
        for row in rows[:BAD_MAX]:
            sample = tensor if tensor.ndim == 0 else tensor[row]
            value = sample.flatten()[~sample.flatten().isfinite()][0].item()
            facts = {"cause": "sample", **self._sample(row), "tensor": number, "value": value}
            facts["count"] = int((~sample.isfinite()).sum())
            self._tell(facts, f"holds {facts['count']} numbers that are not finite, as {value}")

    def _sample(self, row):
        known = self._indices is not None and row < len(self._indices)
        index = self._indices[row] if known else None
        return {"batch": self._count, "row": row, "index": index}

    def _tell(self, facts, what):
        where = f"sample {facts['row']} of batch {facts['batch']}"
        if facts["index"] is not None:
            where += f" (index {facts['index']} of the data set)"
        place = f"{facts['cause']} {facts['index']} {facts['row']}"
        self._session.incident("data_loading", place, facts, f"{where} {what}")

    # ---------------------------------------------------------------- labels

    def call_ended(self, module, call, output):
        self._settle()
        if not call.is_training or not call.has_grad or self._batch is None or output is None:
            return
        scores = output if isinstance(output, torch.Tensor) else getattr(output, "logits", None)
        if scores is None:
            return
        for target in tensors_of(self._batch):
            classes = _classes(scores, target)
            if classes is not None and target.device.type == "cpu":
                self._suspect = self._suspect or self._wrong_label(target, classes)

    def _wrong_label(self, target, classes):
        wrong = ((target < 0) & (target != IGNORED)) | (target >= classes)
        if not wrong.any():
            return None
        place = torch.nonzero(wrong)[0].tolist()
        value = target[tuple(place)].item()
        return {"cause": "label", **self._sample(place[0]), "value": value, "classes": classes}

    def backward(self, roots):
        """The loss took the labels: they mean something else, or all were right."""
        self._suspect = None

    def step_ended(self, optimizer, scaler):
        self._suspect = None

    def failed(self, failure):
        self._settle()

    def finish(self):
        self._settle()
        self._batch = None

    def _settle(self):
        """No backward came after a forward: the loss raised."""
        suspect, self._suspect = self._suspect, None
        if suspect is not None:
            self._tell(suspect, f"has label {suspect['value']}, of {suspect['classes']} classes")


def _sum_of(tensor):
    """Not finite when a number is not, or all together are too large for the type: who looks
    closer finds nothing then. Adding up in the type itself is several times as fast."""
    is_short = tensor.element_size() < 4
    return tensor.sum(dtype=torch.float32 if is_short else None).item()


def _classes(scores, target):
    """How many classes scores are for, where `target` can be their labels; None: it cannot."""
    if target.dtype not in (torch.int64, torch.int32) or scores.ndim != target.ndim + 1:
        return None
    if scores.shape[:-1] == target.shape:
        found = scores.shape[-1]
    elif scores.shape[:1] + scores.shape[2:] == target.shape:
        found = scores.shape[1]
    else:
        return None
    return found if found > 1 else None
