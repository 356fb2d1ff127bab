"""profile_inference_performance: what a model takes for texts, by times and by memory."""

import contextlib

import torch

import kinetoscope
from kinetoscope._engine import slope, summarize
from kinetoscope.hf import loading, measuring, model_source, tokenizing
from kinetoscope.torch.state_guard import kept_random

WARM_UP = 2
SIZES = (1, 2, 4, 8)
_PERCENTILES = ("p50", "p90", "p95", "p99")


def profile_inference_performance(
    model,
    texts,
    tokenizer=None,
    model_name=None,
    config=None,
    *,
    batch_size=8,
    runs=10,
    batch_sizes=None,
    max_length=None,
):
    """Runs a model over one batch of texts again and again, without gradients.

    texts: texts (with a tokenizer, or the model_name of one), token ids, or a mapping of arguments;
    of texts the first batch_size. batch_sizes: other sizes to run, 1, 2, 4 and 8 as far as there
    are texts; none with benchmark_different_sizes off. The precision is that of
    use_mixed_precision and mixed_precision_dtype.

    {avg_inference_time, std_inference_time, p50, p90, p95, p99, min, max: seconds of a forward;
    runs, batch_size, tokens (of texts, without padding), texts_per_second, tokens_per_second,
    avg_memory_usage (bytes of tensors above what was there, at the peak of a forward),
    total_memory_used (that and the model), dtype, batch_sizes {size: {avg_inference_time,
    memory_used, texts_per_second}}, memory_per_text (bytes by which memory grows with a text),
    tokenization_time}. With profile_inference off figures are None. Memory is None where it cannot
    be seen (compiled models on the CPU). ValueError: no texts, no tokenizer for them.
    """
    config = measuring.config_or_default(config)
    if not config.profile_inference:
        return {**dict.fromkeys(_KEYS), "batch_sizes": {}}
    source = Source(model, texts, tokenizer, model_name, max_length)
    device = measuring.device_of(model)
    with _untouched(model, config):
        batch = source.batch(batch_size)
        times = summarize(_time_forwards(model, batch, device, runs))
        memory = memory_of_forward(model, batch, device)
        sizes = _sizes(batch_sizes, source, config)
        rows = {size: size_row(model, source.batch(size), device, size) for size in sizes}
    return {
        "avg_inference_time": times["mean"],
        "std_inference_time": times["std"],
        **{name: times[name] for name in (*_PERCENTILES, "min", "max")},
        "runs": times["count"],
        **_throughput(batch, times["mean"]),
        "avg_memory_usage": memory,
        "total_memory_used": None if memory is None else memory + measuring.model_bytes(model),
        "dtype": dtype_name(model, config),
        "batch_sizes": rows,
        "memory_per_text": _memory_per_text(rows),
        "tokenization_time": source.tokenization_time,
    }


_KEYS = (
    "avg_inference_time",
    "std_inference_time",
    *_PERCENTILES,
    "min",
    "max",
    "runs",
    "batch_size",
    "tokens",
    "texts_per_second",
    "tokens_per_second",
    "avg_memory_usage",
    "total_memory_used",
    "dtype",
    "memory_per_text",
    "tokenization_time",
)


@contextlib.contextmanager
def _untouched(model, config):
    """As a program judges: no gradients, evaluation mode; then all is as it was."""
    with measuring.evaluating(model), kept_random(), torch.no_grad():
        with measuring.precision(config, model):
            yield


class Source:
    """Batches of what was given."""

    def __init__(self, model, texts, tokenizer, model_name, max_length):
        self._taken = model_source.arguments_of(model)
        self._device = measuring.device_of(model)
        self._max_length = max_length
        self._tokenizer = tokenizer
        self.tokenization_time = None
        self._given = {"input_ids": texts} if isinstance(texts, torch.Tensor) else texts
        if not hasattr(self._given, "keys"):
            self._given = [texts] if isinstance(texts, str) else list(texts)
            self._tokenizer = self._tokenizer or _tokenizer(model_name)
        if len(self) == 0:
            raise ValueError("there is no text for the model")

    def __len__(self):
        if isinstance(self._given, list):
            return len(self._given)
        return next((len(v) for v in self._given.values() if hasattr(v, "__len__")), 0)

    def batch(self, size):
        """Arguments of the model, of the first `size` texts; the smallest batch is one text."""
        if isinstance(self._given, list):
            batch = self._encode(self._given[:size])
        else:
            count = len(self)
            whole = {k: v for k, v in self._given.items() if getattr(v, "ndim", 0) > 0}
            batch = {
                k: v[:size] if k in whole and len(v) == count else v for k, v in self._given.items()
            }
        return {
            k: v.to(self._device) if isinstance(v, torch.Tensor) else v
            for k, v in batch.items()
            if self._taken is None or k in self._taken or not isinstance(self._given, list)
        }

    def _encode(self, texts):
        began_ns = measuring.perf_counter_ns()
        with kinetoscope.profile_operation("tokenize", "tokenization"):
            batch = tokenizing.encode(self._tokenizer, texts, self._max_length, return_tensors="pt")
        if self.tokenization_time is None:
            elapsed = measuring.seconds(began_ns, measuring.perf_counter_ns())
            self.tokenization_time = elapsed
        return batch


def _tokenizer(name):
    if name is None:
        raise ValueError("texts need a tokenizer, or the model_name of one")
    import transformers

    return transformers.AutoTokenizer.from_pretrained(name)


def _time_forwards(model, batch, device, runs):
    region = kinetoscope.profile_operation("inference", "inference")
    for _ in range(WARM_UP):
        model(**batch)
    lengths = []
    for _ in range(max(runs, 1)):
        began_ns = measuring.now_ns(device)
        with region:
            model(**batch)
        lengths.append(measuring.seconds(began_ns, measuring.now_ns(device)))
    return lengths


def memory_of_forward(model, batch, device):
    if device.type == "cpu" and measuring.is_compiled(model):
        return None
    return measuring.peak_bytes(lambda: model(**batch), device)


def _sizes(given, source, config):
    if given is not None:
        return list(given)
    if not config.benchmark_different_sizes:
        return []
    return [size for size in SIZES if size <= len(source)]


def size_row(model, batch, device, size):
    mean = summarize(_time_forwards(model, batch, device, 3))["mean"]
    return {
        "avg_inference_time": mean,
        "memory_used": memory_of_forward(model, batch, device),
        "texts_per_second": size / mean,
    }


def _memory_per_text(rows):
    known = {size: row["memory_used"] for size, row in rows.items() if row["memory_used"]}
    return slope(list(known), list(known.values())) if len(known) > 1 else None


def count_tokens(batch):
    """(texts, tokens without padding) of a batch; None where there are no tokens."""
    ids, mask = batch.get("input_ids"), batch.get("attention_mask")
    if ids is None:
        first = next((v for v in batch.values() if isinstance(v, torch.Tensor)), None)
        return (0 if first is None else len(first)), None
    return len(ids), int(mask.sum()) if mask is not None else ids.numel()


def _throughput(batch, mean):
    texts, tokens = count_tokens(batch)
    return {
        "batch_size": texts,
        "tokens": tokens,
        "texts_per_second": texts / mean,
        "tokens_per_second": None if tokens is None else tokens / mean,
    }


def dtype_name(model, config):
    mixed = measuring.mixed_dtype(config, model)
    return measuring.name_of_dtype(mixed) or loading.describe(model)["dtype"]
