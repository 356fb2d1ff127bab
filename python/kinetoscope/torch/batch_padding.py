"""How much of a batch of texts is padding: from its attention mask or, without one, from token ids
whose rows end or begin with a value that occurs nowhere else. Raw numbers; the report judges.

Only tensors in host memory are looked at: to look at others would wait for the device. NumPy
counts, since an operator would be recorded.
"""

from collections.abc import Mapping
from itertools import islice

MEMBERS_MAX = 16  # of a batch: a list of samples is none
ELEMENTS_MAX = 1 << 18  # of token ids: more rows say no more, and the program waits
ROWS_MIN = 2
LENGTH_MIN = 8  # of token ids: a table may have a few columns of whole numbers
PADDING_MIN = 2  # in the row with most of it


def count_tokens(batch):
    """(elements, elements if each row ended with the longest one, tokens) of [batch, length]; None
    when the batch has no text that can be told from padding. May raise what a tensor or mapping of
    another library raises."""
    mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
    if _is_table(mask) and not mask.is_floating_point() and not mask.is_complex():
        return _counts((mask.numpy() != 0).sum(axis=1), mask.numel())
    for tensor in _members(batch):
        ids = _token_ids(tensor)
        lengths = None if ids is None else _lengths(ids)
        if lengths is not None:
            return _counts(lengths, ids.size)
    return None


def _counts(lengths, elements):
    rows = lengths.tolist()
    return elements, len(rows) * max(rows), sum(rows)


def _is_table(tensor):
    """A mask that is a float would be added to the scores: only its caller can say."""
    is_there = tensor is not None and tensor.device.type == "cpu"
    return is_there and tensor.dim() == 2 and tensor.numel() > 0


def _members(batch):
    if isinstance(batch, Mapping):
        batch = batch.values()
    elif not isinstance(batch, (tuple, list)):
        batch = (batch,)
    return islice(batch, MEMBERS_MAX)


def _token_ids(tensor):
    if not hasattr(tensor, "dim") or not _is_table(tensor):
        return None
    is_whole = str(tensor.dtype) in ("torch.int64", "torch.int32")
    if not is_whole or tensor.shape[1] < LENGTH_MIN:
        return None
    return tensor.numpy()[: max(ELEMENTS_MAX // tensor.shape[1], ROWS_MIN)]


def _lengths(ids):
    """Tokens of each row; None when no value is surely padding."""
    for rows in (ids[:, ::-1], ids):  # at the end, then at the beginning
        edge = rows[:, 0].tolist()
        value = max(set(edge), key=edge.count)
        is_value = rows == value
        run = is_value.cumprod(axis=1).sum(axis=1)
        is_padding = edge.count(value) > 1 and run.max() >= PADDING_MIN
        if is_padding and run.max() < rows.shape[1] and (is_value.sum(axis=1) == run).all():
            return rows.shape[1] - run
    return None
