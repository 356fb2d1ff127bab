"""profile_generation: prefill, decode, tokens per second and the KV cache of model.generate."""

import contextlib
from time import perf_counter_ns

import torch

import kinetoscope
from kinetoscope._engine import summarize
from kinetoscope.hf import kv_cache, measuring, model_source, tokenizing
from kinetoscope.torch.state_guard import kept_random


def profile_generation(
    model, inputs, tokenizer=None, config=None, *, max_new_tokens=32, runs=3, **options
):
    """Runs model.generate and says where its time went. One run before is not counted.

    inputs: texts (with a tokenizer, padded on the left), token ids [batch, tokens], or a mapping
    of arguments. options: for generate; exactly max_new_tokens are made unless they say otherwise.

    {batch_size, prompt_tokens, new_tokens (of each text), sequences (token ids of the last run),
    total_time, time_to_first_token, prefill_time (in the model, up to the first token),
    decode_time (in the model, behind it), decode_wall_time (first token to last),
    between_tokens {count, mean, std, p50, ...}, tokens_per_second (all new tokens of the batch in
    total_time), prefill_tokens_per_second, decode_tokens_per_second, prefill_share (of time in the
    model), kv_cache {bytes, formula_bytes, matches_formula, tokens, bytes_per_token} or None,
    peak_memory (bytes above what was there, None on the CPU), total_times}. Times are seconds,
    medians of the runs. With profile_inference off all is None. ValueError: beams, for which there
    is no first token; TypeError: the model does not generate.
    """
    config = measuring.config_or_default(config)
    if not callable(getattr(model, "generate", None)):
        raise TypeError(f"{type(model).__name__} does not generate")
    if not config.profile_inference:
        return dict.fromkeys(_KEYS)
    if options.get("num_beams", 1) > 1:
        raise ValueError("tokens of several beams come at the end: num_beams must be 1")
    device = measuring.device_of(model)
    arguments = {**_arguments(model, inputs, tokenizer, device), **options}
    arguments.setdefault("max_new_tokens", max_new_tokens)
    if "min_new_tokens" not in arguments and "eos_token_id" not in arguments:
        arguments["min_new_tokens"] = arguments["max_new_tokens"]
    arguments["return_dict_in_generate"] = True
    with measuring.evaluating(model), kept_random(), torch.no_grad():
        with measuring.precision(config, model):
            return _measure(model, arguments, device, runs)


_KEYS = (
    "batch_size",
    "prompt_tokens",
    "new_tokens",
    "sequences",
    "total_time",
    "time_to_first_token",
    "prefill_time",
    "decode_time",
    "decode_wall_time",
    "between_tokens",
    "tokens_per_second",
    "prefill_tokens_per_second",
    "decode_tokens_per_second",
    "prefill_share",
    "kv_cache",
    "peak_memory",
    "total_times",
)


def _arguments(model, inputs, tokenizer, device):
    if isinstance(inputs, torch.Tensor):
        inputs = {"input_ids": inputs}
    elif isinstance(inputs, list | tuple):
        if tokenizer is None:
            raise ValueError("texts need a tokenizer")
        inputs = _encode(tokenizer, list(inputs))
    taken = model_source.arguments_of(model)
    given = {k: v for k, v in inputs.items() if taken is None or k in taken or k == "input_ids"}
    return {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in given.items()}


def _encode(tokenizer, texts):
    """A decoder goes on behind the last token, so padding must come first."""
    side = getattr(tokenizer, "padding_side", None)
    tokenizer.padding_side = "left"
    try:
        return tokenizing.encode(tokenizer, texts, return_tensors="pt")
    finally:
        tokenizer.padding_side = side


class _Moments:
    """A streamer for generate: it is handed the prompt, then each token of the batch when it is
    chosen, on the CPU, so what is done by then is done on a GPU, too."""

    def __init__(self):
        self.tokens_ns = []
        self._has_prompt = False

    def put(self, value):
        if self._has_prompt:
            self.tokens_ns.append(perf_counter_ns())
        self._has_prompt = True

    def end(self):
        pass


class _Calls:
    """Spans of the model's own forwards. Does nothing while torch.compile traces them."""

    def __init__(self, device):
        self._device = device
        self._open = []
        self.spans = []
        self.cache = None  # of the last call

    def begin(self, module, args):
        if not torch.compiler.is_compiling():
            self._open.append(measuring.mark(self._device))

    def end(self, module, args, output):
        if not torch.compiler.is_compiling() and self._open:
            self.spans.append((perf_counter_ns(), self._open.pop(), measuring.mark(self._device)))
            self.cache = getattr(output, "past_key_values", None)

    def lengths(self):
        """[(when it returned, seconds)]"""
        return [(ended_ns, measuring.between(a, b)) for ended_ns, a, b in self.spans]


@contextlib.contextmanager
def _hooked(model, calls):
    handles = [
        model.register_forward_pre_hook(calls.begin, prepend=True),
        model.register_forward_hook(calls.end, always_call=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _measure(model, arguments, device, runs):
    _run(model, arguments, device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    rows = [_run(model, arguments, device) for _ in range(max(runs, 1))]
    output, cache = rows[-1].pop("output"), rows[-1].pop("cache")
    prompt = arguments["input_ids"].shape
    is_whole = getattr(model.config, "is_encoder_decoder", False)
    first = 1 if is_whole else prompt[1]  # an encoder-decoder begins with a token of its own
    new_tokens = output.sequences.shape[1] - first
    figures = {name: _middle([row[name] for row in rows]) for name in _TIMES}
    peak = None
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device) - before
    return {
        "batch_size": prompt[0],
        "prompt_tokens": prompt[1],
        "new_tokens": new_tokens,
        "sequences": output.sequences,
        **figures,
        "between_tokens": summarize([gap for row in rows for gap in row["gaps"]]),
        **_rates(figures, prompt, new_tokens),
        "kv_cache": _cache_figures(model, cache, prompt, new_tokens),
        "peak_memory": peak,
        "total_times": [row["total_time"] for row in rows],
    }


_TIMES = (
    "total_time",
    "time_to_first_token",
    "prefill_time",
    "decode_time",
    "decode_wall_time",
)


def _run(model, arguments, device):
    moments, calls = _Moments(), _Calls(device)
    region = kinetoscope.profile_operation("generate", "inference")
    with _hooked(model, calls), region:
        began_ns = measuring.now_ns(device)
        output = model.generate(**arguments, streamer=moments)
        ended_ns = measuring.now_ns(device)
    split = _split(began_ns, ended_ns, moments.tokens_ns, calls.lengths())
    # generate hands the cache on since transformers 4.36.
    cache = getattr(output, "past_key_values", None) or calls.cache
    return {"output": output, "cache": cache, **split}


def _split(began_ns, ended_ns, tokens_ns, calls):
    """What came before the first token is prefill, in however many calls; the rest is decode.
    Compiled forwards are not seen."""
    first_ns = tokens_ns[0] if tokens_ns else ended_ns
    last_ns = tokens_ns[-1] if tokens_ns else ended_ns
    return {
        "total_time": measuring.seconds(began_ns, ended_ns),
        "time_to_first_token": measuring.seconds(began_ns, first_ns),
        "prefill_time": _total(length for at_ns, length in calls if at_ns <= first_ns),
        "decode_time": _total(length for at_ns, length in calls if at_ns > first_ns),
        "decode_wall_time": measuring.seconds(first_ns, last_ns),
        "gaps": [measuring.seconds(a, b) for a, b in zip(tokens_ns, tokens_ns[1:], strict=False)],
    }


def _total(lengths):
    lengths = list(lengths)
    return sum(lengths) if lengths else None


def _middle(values):
    return None if None in values else summarize(values)["p50"]


def _rates(figures, prompt, new_tokens):
    batch, tokens = prompt
    prefill = figures["prefill_time"]
    in_model = prefill and prefill + (figures["decode_time"] or 0)
    return {
        "tokens_per_second": _rate(batch * new_tokens, figures["total_time"]),
        "prefill_tokens_per_second": _rate(batch * tokens, prefill),
        "decode_tokens_per_second": _rate(batch * (new_tokens - 1), figures["decode_wall_time"]),
        "prefill_share": prefill / in_model if in_model else None,
    }


def _rate(count, elapsed):
    return count / elapsed if elapsed and count > 0 else None


def _cache_figures(model, cache, prompt, new_tokens):
    held = kv_cache.cache_bytes(cache)
    if held is None:
        return None
    batch, tokens = prompt
    is_whole = getattr(model.config, "is_encoder_decoder", False)
    # The last token was chosen, and never went through the model.
    in_cache = new_tokens if is_whole else tokens + new_tokens - 1
    room = _room(cache)
    sizes = (batch, in_cache if room is None else room, _element_bytes(cache))
    formula = kv_cache.formula_bytes(model.config, *sizes, source_tokens=tokens)
    return {
        "bytes": held,
        "formula_bytes": formula,
        "matches_formula": None if formula is None else held == formula,
        "tokens": in_cache,
        "bytes_per_token": held / (batch * sizes[1]) if not is_whole else None,
    }


def _room(cache):
    """Tokens that a cache of fixed size has room for; None: it grows."""
    if not type(cache).__name__.startswith("Static"):
        return None
    return next((t.shape[-2] for t in kv_cache.tensors_of_cache(cache)), None)


def _element_bytes(cache):
    return next((t.element_size() for t in kv_cache.tensors_of_cache(cache)), 0)
