"""profile_tokenizer_performance: what a tokenizer takes to load, to hold and to run."""

import os

import kinetoscope
from kinetoscope._engine import summarize
from kinetoscope.hf import measuring
from kinetoscope.hf.measuring import perf_counter_ns

BATCH_SIZES = (1, 8, 16, 32, 64, 128)
PASSES = 3


def profile_tokenizer_performance(
    texts, tokenizer=None, model_name=None, config=None, *, batch_sizes=None, max_length=None
):
    """Tokenises all texts in batches of each size.

    tokenizer: one that is loaded; model_name: the folder or name of one, which is then loaded to be
    measured, too. batch_sizes: by default 1, 8, 16, 32, 64, 128, and 8 alone with
    benchmark_different_sizes off. A batch is padded and cut as a model wants it.

    {initialization {duration (s), memory_used} or None, vocabulary_size, vocabulary_bytes (the
    tokens' text), cache_memory (by how much the process grew with the first look at all texts),
    is_fast, batch_sizes {size: {duration, memory_used, texts_per_second, tokens_per_second,
    tokens, padded_tokens}}}. duration: seconds for all texts, the median of a few passes;
    memory_used: bytes by which the process grew. With profile_tokenization off figures are None
    and `batch_sizes` is empty. ValueError: no text, neither tokenizer nor name.
    """
    config = measuring.config_or_default(config)
    texts = list(texts)
    if not texts:
        raise ValueError("there is no text to tokenise")
    if not config.profile_tokenization:
        return {**dict.fromkeys(_KEYS), "batch_sizes": {}}
    initialization = None
    if model_name is not None:
        loaded, initialization = _load(model_name)
        tokenizer = tokenizer if tokenizer is not None else loaded
    if tokenizer is None:
        raise ValueError("neither a tokenizer nor a model_name was given")
    if batch_sizes is None:
        batch_sizes = BATCH_SIZES if config.benchmark_different_sizes else (8,)
    run = _Run(tokenizer, texts, max_length)
    before = measuring.resident_bytes()
    run.encode(max(batch_sizes))
    return {
        "initialization": initialization,
        **describe(tokenizer),
        "cache_memory": measuring.resident_bytes() - before,
        "batch_sizes": {size: run.measure(size) for size in batch_sizes},
    }


_KEYS = ("initialization", "vocabulary_size", "vocabulary_bytes", "cache_memory", "is_fast")


def _load(name):
    import transformers

    before, began_ns = measuring.resident_bytes(), perf_counter_ns()
    with kinetoscope.profile_operation("load_tokenizer", "tokenization"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(os.fspath(name))
    elapsed = measuring.seconds(began_ns, perf_counter_ns())
    grown = measuring.resident_bytes() - before
    return tokenizer, {"duration": elapsed, "memory_used": grown}


def describe(tokenizer):
    vocabulary = tokenizer.get_vocab()
    return {
        "vocabulary_size": len(vocabulary),
        "vocabulary_bytes": sum(len(str(token).encode("utf-8", "replace")) for token in vocabulary),
        "is_fast": bool(getattr(tokenizer, "is_fast", False)),
    }


def encode(tokenizer, texts, max_length=None, **options):
    """One batch: padded when the tokenizer can, cut when it has an end."""
    limit = max_length or getattr(tokenizer, "model_max_length", None)
    is_limited = limit is not None and limit < 10**9  # transformers says "no limit" by 10^30
    return tokenizer(
        texts,
        padding=tokenizer.pad_token is not None and len(texts) > 1,
        truncation=is_limited,
        max_length=limit if is_limited else None,
        **options,
    )


class _Run:
    def __init__(self, tokenizer, texts, max_length):
        self._tokenizer = tokenizer
        self._texts = texts
        self._max_length = max_length
        self._region = kinetoscope.profile_operation("tokenize", "tokenization")

    def encode(self, size):
        texts = self._texts
        with self._region:
            return [
                encode(self._tokenizer, texts[at : at + size], self._max_length)
                for at in range(0, len(texts), size)
            ]

    def measure(self, size):
        before = measuring.resident_bytes()
        lengths = []
        for _ in range(PASSES):
            began_ns = perf_counter_ns()
            batches = self.encode(size)
            lengths.append(measuring.seconds(began_ns, perf_counter_ns()))
        duration = summarize(lengths)["p50"]
        tokens, padded = _count(batches)
        return {
            "duration": duration,
            "memory_used": measuring.resident_bytes() - before,
            "texts_per_second": len(self._texts) / duration,
            "tokens_per_second": tokens / duration,
            "tokens": tokens,
            "padded_tokens": padded,
        }


def _count(batches):
    """(tokens of texts, tokens with padding)"""
    padded = sum(len(row) for batch in batches for row in batch["input_ids"])
    if not all("attention_mask" in batch for batch in batches):
        return padded, padded
    return sum(sum(row) for batch in batches for row in batch["attention_mask"]), padded
