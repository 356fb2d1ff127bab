"""benchmark_model_variants, TransformersBenchmarker: several models on the same texts."""

import contextlib
import logging
import os

import torch

from kinetoscope.hf import inference, loading, measuring, tokenizing
from kinetoscope.hf.timed_variants import time_in_turn
from kinetoscope.torch.state_guard import kept_random

_log = logging.getLogger("kinetoscope")


def benchmark_model_variants(
    variants,
    texts,
    config=None,
    *,
    tokenizer=None,
    model_class="AutoModel",
    batch_size=8,
    seconds=10.0,
    rounds=60,
    device=None,
):
    """Runs models over the same texts, timed in turn so that what else the machine does meets all.

    variants: folders or names, configurations of transformers, modules; or a mapping of names to
    those. tokenizer: for variants that have none in their folder. model_class: what is loaded, by
    default the model without a head; None: what was saved. device: where they are loaded, a GPU
    where there is one; modules stay where they are. The first batch_size texts are one
    batch. seconds, rounds: limits of the timing of all together. All models are loaded at once.

    {name: {load_time, avg_tokenization_time, avg_inference_time, std_inference_time,
    median_inference_time, inference_interval {low, high} (of the median): s of a batch; rounds,
    speedup, speedup_low, speedup_high, verdict (against the first; None for it: faster, slower,
    no_difference, cannot_tell), total_parameters, model_size_mb (MiB of weights), dtype, attention,
    texts_per_second, tokens_per_second, avg_memory_usage (bytes, as of
    profile_inference_performance), batch_sizes, failure (why it was not timed, or None)}}. A
    variant that cannot be loaded or run has its failure and nothing else, and the others are
    measured; they are compared with the first that can.

    Switches: profile_model_variants off: {}; profile_model_loading, profile_tokenization,
    profile_inference off: their figures are None; benchmark_different_sizes: batch_sizes.
    ValueError: no variant, none that can be loaded (its name and why), two of one name.
    """
    config = measuring.config_or_default(config)
    named = _named(variants)
    if not config.profile_model_variants:
        return {}
    texts = list(texts)
    given = (tokenizer, config, model_class, device)
    plan = (batch_size, seconds, rounds)
    with kept_random(), torch.no_grad():
        models, failures = _load(named, texts, given)
        return _measure(named, models, failures, config, plan)


class TransformersBenchmarker:
    """benchmark_model_variants with the config of a CodeProfiler; `results` keeps what each call
    gave, in order."""

    def __init__(self, profiler=None):
        self.config = measuring.config_or_default(profiler)
        self.results = []

    def benchmark_model_variants(self, variants, texts, **options):
        """As the function of this name."""
        result = benchmark_model_variants(variants, texts, self.config, **options)
        self.results.append(result)
        return result

    def benchmark_batch_sizes(self, model, texts, tokenizer=None, batch_sizes=(1, 2, 4, 8)):
        """{size: {avg_inference_time, memory_used, texts_per_second}} of one model; empty with
        profile_inference or benchmark_different_sizes off."""
        if not self.config.benchmark_different_sizes:
            return {}
        result = inference.profile_inference_performance(
            model, texts, tokenizer, config=self.config, runs=3, batch_sizes=batch_sizes
        )
        return result["batch_sizes"]


def _named(variants):
    if hasattr(variants, "items"):
        named = dict(variants)
    else:
        pairs = [(_name_of(variant), variant) for variant in variants]
        named = dict(pairs)
        if len(named) < len(pairs):
            raise ValueError("two variants have one name: give a mapping of names to them")
    if not named:
        raise ValueError("there is no variant to benchmark")
    return named


def _name_of(variant):
    """A folder is its own name; shapes have the numbers by which they mostly differ."""
    if isinstance(variant, str | os.PathLike):
        return os.fspath(variant)
    shape = variant if not isinstance(variant, torch.nn.Module) else variant.config
    if not hasattr(shape, "model_type"):
        raise TypeError(f"no model, configuration or folder of one: {type(variant).__name__}")
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads")
    numbers = [str(getattr(shape, name, "?")) for name in names]
    return f"{shape.model_type}-{'x'.join(numbers)}"


class _Variant:
    """A model, its tokenizer, and batches of the texts."""

    def __init__(self, source, texts, tokenizer, config, model_class, device):
        self._texts = texts
        self.load_time = None
        if isinstance(source, torch.nn.Module):
            self.model = source
        else:
            if device is None and torch.cuda.is_available() and not config.use_device_map:
                device = "cuda"
            loaded = loading.load_model_with_profiling(
                source, config, model_class=model_class, device=device
            )
            self.model, self.load_time = loaded["model"], loaded.get("load_time")
        self.tokenizer = _tokenizer_of(source, tokenizer)
        self.device = measuring.device_of(self.model)
        self.source = inference.Source(self.model, texts, self.tokenizer, None, None)

    def tokenization_time(self):
        """Seconds for one batch of all texts."""
        result = tokenizing.profile_tokenizer_performance(
            self._texts, self.tokenizer, batch_sizes=(len(self._texts),)
        )
        return result["batch_sizes"][len(self._texts)]["duration"]


def _tokenizer_of(source, given):
    """A folder's own goes first: it knows the words that the model knows."""
    if isinstance(source, str | os.PathLike):
        import transformers

        try:
            return transformers.AutoTokenizer.from_pretrained(os.fspath(source))
        except (OSError, ValueError):
            if given is None:
                raise
    if given is None:
        raise ValueError("a variant has no tokenizer: give one by tokenizer=")
    return given


def _load(named, texts, given):
    """({name: variant}, {name: why there is none})"""
    loaded, failures = {}, {}
    for name, source in named.items():
        try:
            loaded[name] = _Variant(source, texts, *given)
        except Exception as failure:  # no such folder, no network, no memory, no such class
            failures[name] = _reason("cannot be loaded", failure)
            _log.warning("variant %r %s", name, failures[name])
    if not loaded:
        told = "; ".join(f"{name!r} {why}" for name, why in failures.items())
        raise ValueError(f"no variant can be measured: {told}")
    return loaded, failures


def _reason(what, failure):
    text = str(failure).strip().splitlines()
    return f"{what}: {type(failure).__name__}: {text[0] if text else ''}"


def _measure(named, models, failures, config, plan):
    batch_size, seconds, rounds = plan
    batches = {name: v.source.batch(batch_size) for name, v in models.items()}
    timed = {}
    if config.profile_inference:
        with _all_evaluating([v.model for v in models.values()]):
            timed = _time(models, batches, failures, config, (seconds, rounds))
    rows = {
        name: _row(v, batches[name], timed.get(name), config, failures.get(name))
        for name, v in models.items()
    }
    return {name: rows.get(name) or _no_row(failures[name]) for name in named}


def _time(models, batches, failures, config, limits):
    """{name: its times}; why there are none goes to failures."""
    calls = {}
    for name, v in models.items():
        try:
            with measuring.precision(config, v.model):
                v.memory = inference.memory_of_forward(v.model, batches[name], v.device)
        except Exception as failure:  # whatever a model says about texts
            failures[name] = _reason("cannot be run", failure)
            continue
        calls[name] = _call(v.model, batches[name], config)
    if not calls:
        return {}
    devices = {name: models[name].device for name in calls}
    timed, stopped = time_in_turn(calls, devices, *limits)
    failures.update(stopped)
    return timed


def _call(model, batch, config):
    precision = measuring.make_precision(config, model)

    def call():
        with precision():
            model(**batch)

    return call


def _all_evaluating(models):
    stack = contextlib.ExitStack()
    for model in models:
        stack.enter_context(measuring.evaluating(model))
    return stack


def _row(variant, batch, timed, config, failure):
    facts = loading.describe(variant.model)
    texts, tokens = inference.count_tokens(batch)
    timed = timed or {}
    mean = timed.get("avg_time")
    return {
        "load_time": variant.load_time,
        "avg_tokenization_time": _tokenization(variant, config),
        "avg_inference_time": mean,
        "std_inference_time": timed.get("std_time"),
        "median_inference_time": timed.get("median_time"),
        "inference_interval": timed.get("interval"),
        **{k: timed.get(k) for k in _COMPARED},
        "total_parameters": facts["parameter_count"],
        "model_size_mb": facts["model_size_mb"],
        "dtype": facts["dtype"],
        "attention": facts["attention"],
        "texts_per_second": texts / mean if mean else None,
        "tokens_per_second": tokens / mean if mean and tokens else None,
        "avg_memory_usage": getattr(variant, "memory", None),
        "batch_sizes": _sizes(variant, config) if failure is None else {},
        "failure": failure,
    }


def _no_row(failure):
    return {**dict.fromkeys(_KEYS), "batch_sizes": {}, "failure": failure}


_COMPARED = ("rounds", "speedup", "speedup_low", "speedup_high", "verdict")
_KEYS = (
    "load_time",
    "avg_tokenization_time",
    "avg_inference_time",
    "std_inference_time",
    "median_inference_time",
    "inference_interval",
    *_COMPARED,
    "total_parameters",
    "model_size_mb",
    "dtype",
    "attention",
    "texts_per_second",
    "tokens_per_second",
    "avg_memory_usage",
)


def _tokenization(variant, config):
    return variant.tokenization_time() if config.profile_tokenization else None


def _sizes(variant, config):
    if not (config.benchmark_different_sizes and config.profile_inference):
        return {}
    model, source, device = variant.model, variant.source, variant.device
    sizes = [size for size in inference.SIZES if size <= len(source)]
    with measuring.evaluating(model), measuring.precision(config, model):
        return {n: inference.size_row(model, source.batch(n), device, n) for n in sizes}
