"""compare_inference_options: attention, precision, compile and quantisation of one model, timed in
turn, each with how far its results are from those of the model as it is."""

import contextlib
import copy

import torch

from kinetoscope.hf import inference, loading, measuring, model_source
from kinetoscope.hf.timed_variants import time_in_turn
from kinetoscope.torch.state_guard import kept_random
from kinetoscope.torch.tensor_tree import tensors_of
from kinetoscope.tune import quantization
from kinetoscope.tune.setting import Setting

BASELINE = "as_it_is"
OPTIONS = ("attention", "precision", "compile", "quantization")

# Largest difference, as a share of the largest value of the results, that counts as the same. An
# element of bfloat16 has 8 bits, of float16 11, of int8 7; a few layers lose some more.
TOLERANCES = {
    "attention": 1e-3,
    "compile": 1e-3,
    "tf32": 1e-2,
    "float16": 2e-2,
    "bfloat16": 6e-2,
    "quantization": 2e-1,
}


def compare_inference_options(
    model,
    inputs,
    tokenizer=None,
    config=None,
    *,
    options=OPTIONS,
    batch_size=8,
    seconds=10.0,
    rounds=60,
    compile_backend="inductor",
    tolerances=None,
):
    """Runs copies of a model that differ from it by one choice.

    inputs: as of profile_inference_performance. options: which groups of choices. tolerances:
    {name of a variant, or of its group or dtype: share}, in place of TOLERANCES.

    {baseline: "as_it_is", best (name of the fastest that is right, and clearly faster; else the
    baseline), variants {name: {avg_inference_time, std_inference_time, median_inference_time,
    inference_interval, rounds, speedup, speedup_low, speedup_high, verdict, max_difference (of the
    first tensor of floats in the output), relative_difference, tolerance, is_right, model_size_mb
    (of quantised weights as they are saved), memory_used (bytes at the peak above what was there),
    build_time (s; of compile with its first call), reason (why it has no figures, or is wrong; else
    None)}}}. Names: attention:eager,
    attention:sdpa, attention:flash_attention_2, precision:bfloat16, precision:float16,
    precision:tf32 (GPU), compile:default, compile:reduce-overhead (GPU), quantization:int8_dynamic
    (CPU), quantization:int8_weight_only and int4_weight_only (torchao), as kinetoscope.tune has
    them. Needs memory for all copies
    at once. optimize_attention off leaves attention out. ValueError: an unknown option.
    """
    config = measuring.config_or_default(config)
    unknown = set(options) - set(OPTIONS)
    if unknown:
        raise ValueError(f"options are some of {OPTIONS}, not {sorted(unknown)}")
    device = measuring.device_of(model)
    batch = inference.Source(model, inputs, tokenizer, None, None).batch(batch_size)
    plan = [
        choice for choice in _choices(options, device, compile_backend) if _wanted(choice, config)
    ]
    variants = {BASELINE: _Variant("", lambda: model)}
    variants |= {c.name: _Variant(c.group, c.maker(model), c.context) for c in plan}
    with measuring.evaluating(model), kept_random(), torch.no_grad():
        _build(variants, batch, device, {**TOLERANCES, **(tolerances or {})})
        good = {name: v.runner(batch) for name, v in variants.items() if v.reason is None}
        timed, failures = time_in_turn(good, dict.fromkeys(good, device), seconds, rounds)
    for name, why in failures.items():
        variants[name].reason = why
    if BASELINE in failures:
        timed = {}  # nothing is left to compare with
    rows = {name: v.row(timed.get(name, {})) for name, v in variants.items()}
    return {"baseline": BASELINE, "best": _best(rows), "variants": rows}


def _wanted(choice, config):
    return choice.group != "attention" or config.optimize_attention


def _best(rows):
    """Among those that are clearly faster, the one with the lowest median."""
    faster = [name for name, row in rows.items() if row["verdict"] == "faster"]
    return min(faster, key=lambda name: rows[name]["median_inference_time"], default=BASELINE)


# ---------------------------------------------------------------- choices


class _Missing(Exception):
    """Why there cannot be such a copy, as a sentence."""


class _Choice:
    def __init__(self, group, word, change, context=contextlib.nullcontext, missing=None):
        self.group = group
        self.name = f"{group}:{word}"
        self.context = context
        self._change = change
        self._missing = missing

    def maker(self, model):
        """A function that makes the copy; what it raises is why there is none."""

        def make():
            why = self._missing(model) if self._missing is not None else None
            if why is not None:
                raise _Missing(why)
            return self._change(copy.deepcopy(model))

        return make


def _choices(options, device, backend):
    if "attention" in options:
        names = ["eager", "sdpa"]
        if device.type == "cuda":
            names += ["flash_attention_2"]
        for name in names:
            yield _Choice("attention", name, _with_attention(name))
    if "precision" in options:
        for dtype in (torch.bfloat16, torch.float16):
            yield _Choice("precision", measuring.name_of_dtype(dtype), _with_dtype(dtype))
        if device.type == "cuda":
            tf32 = Setting(precision="tf32").around_steps
            yield _Choice("precision", "tf32", lambda model: model, tf32)
    if "compile" in options:
        modes = ["default"] + (["reduce-overhead"] if device.type == "cuda" else [])
        for mode in modes:
            yield _Choice("compile", mode, _compiled(mode, backend))
    if "quantization" in options:
        yield from _quantizations()


def _with_attention(name):
    def change(model):
        if hasattr(model, "set_attn_implementation"):
            model.set_attn_implementation(name)
            return model
        # Before 4.52 the implementation is chosen when a model is made.
        model.config._attn_implementation = name
        again = model_source.make_from_config(model.config, type(model), attn_implementation=name)
        again.load_state_dict(model.state_dict())
        return again.to(measuring.device_of(model)).eval()

    return change


def _with_dtype(dtype):
    return lambda model: model.to(dtype)


def _compiled(mode, backend):
    if backend == "inductor":
        return Setting(compile=mode).compiled
    return lambda model: torch.compile(model, backend=backend)


def _quantizations():
    """The ways of kinetoscope.tune; a model of transformers may have nothing for them."""
    for word, way in quantization.WAYS.items():
        setting = Setting(quantization=word)
        yield _Choice("quantization", word, setting.change_model, missing=_why_not(way))


def _why_not(way):
    def why(model):
        if not any(isinstance(module, torch.nn.Linear) for module in model.modules()):
            return "it has no torch.nn.Linear to quantise"
        return way.missing(model)

    return why


# ---------------------------------------------------------------- variants


class _Variant:
    def __init__(self, group, make, context=contextlib.nullcontext):
        self.group = group
        self.make = make
        self.context = context
        self.model = None
        self.reason = None
        self.facts = dict.fromkeys(_FACTS)

    def run(self, batch):
        with self.context():
            return self.model(**_as_model_wants(self.model, batch))

    def runner(self, batch):
        return lambda: self.run(batch)

    def row(self, timed):
        return {
            "avg_inference_time": timed.get("avg_time"),
            "std_inference_time": timed.get("std_time"),
            "median_inference_time": timed.get("median_time"),
            "inference_interval": timed.get("interval"),
            **{k: timed.get(k) for k in _COMPARED},
            **self.facts,
            "reason": self.reason,
        }


_COMPARED = ("rounds", "speedup", "speedup_low", "speedup_high", "verdict")
_FACTS = (
    "max_difference",
    "relative_difference",
    "tolerance",
    "is_right",
    "model_size_mb",
    "memory_used",
    "build_time",
)


def _as_model_wants(model, batch):
    """Pictures and sounds come in the dtype of weights."""
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), None)
    if dtype is None:
        return batch
    return {
        k: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
        for k, v in batch.items()
    }


def _build(variants, batch, device, tolerances):
    """Makes each copy and looks at its results; one that cannot be made, or is wrong, says why."""
    wanted = None
    for name, variant in variants.items():
        try:
            began_ns = measuring.now_ns(device)
            variant.model = variant.make()
            output = variant.run(batch)
            elapsed = measuring.seconds(began_ns, measuring.now_ns(device))
        except Exception as failure:  # whatever a compiler or a kernel says
            if name == BASELINE:
                raise
            variant.reason = _first_line(failure)
            variant.model = None
            continue
        result = _first_floats(output)
        wanted = result if name == BASELINE else wanted
        variant.facts |= {
            "build_time": elapsed,
            "model_size_mb": _size(variant) / measuring.MEBIBYTE,
            "memory_used": _memory(variant, batch, device),
        }
        if name != BASELINE:
            variant.facts |= _difference(wanted, result, _tolerance(name, tolerances))
            variant.reason = _wrong(variant.facts)


def _first_line(failure):
    if isinstance(failure, _Missing):
        return str(failure)
    text = str(failure).strip().splitlines()
    return f"{type(failure).__name__}: {text[0] if text else ''}"


def _first_floats(output):
    """A copy: what a CUDA graph gave is written over by the next call."""
    for tensor in tensors_of(output):
        if tensor.is_floating_point():
            return tensor.detach().to(torch.float32, copy=True)
    raise ValueError("the model's output has no tensor of floats to compare")


def _size(variant):
    """Bytes of weights; packed ones are no parameters, or say the size that they stand for."""
    if variant.group == "quantization":
        packed = quantization.saved_bytes(variant.model)
        if packed is not None:
            return packed
    return loading.describe(variant.model)["parameter_bytes"]


def _memory(variant, batch, device):
    if device.type == "cpu" and measuring.is_compiled(variant.model):
        return None
    return measuring.peak_bytes(variant.runner(batch), device)


def _tolerance(name, tolerances):
    group, word = name.split(":")
    return next(tolerances[key] for key in (name, word, group) if key in tolerances)


def _difference(wanted, result, tolerance):
    if wanted.shape != result.shape:
        return {"tolerance": tolerance, "is_right": False}
    largest = (wanted - result).abs().max().item()
    scale = wanted.abs().max().item()
    relative = largest / scale if scale else largest
    known = relative == relative and relative != float("inf")
    return {
        "max_difference": largest if known else None,
        "relative_difference": relative if known else None,
        "tolerance": tolerance,
        "is_right": known and relative <= tolerance,
    }


def _wrong(facts):
    if facts["is_right"]:
        return None
    if facts["relative_difference"] is None:
        return "its results are not finite, or of another shape"
    return (
        f"its results differ by {facts['relative_difference']:.2g} of the largest value, "
        f"more than {facts['tolerance']:.2g}"
    )
