"""load_model_with_profiling: a model from a folder, and what loading it took."""

import contextlib
import copy

import torch

import kinetoscope
from kinetoscope.hf import measuring, model_source
from kinetoscope.torch.device_placement import profile_device_placement


def load_model_with_profiling(
    source, config=None, *, model_class=None, device=None, device_map=None, dtype=None, **options
):
    """Loads a model from a folder or name (from_pretrained), or makes one of a configuration.

    config: a ProfilingConfig or CodeProfiler. Its use_device_map places the model by
    device_map="auto" (which needs accelerate), optimize_attention asks for sdpa and without it for
    eager, mixed_precision_dtype is the dtype of weights when it is not "auto". What is given here
    goes before them. model_class: a class of transformers or its name, else the one that was saved.
    options: for from_pretrained. The model is as from_pretrained gives it, in eval mode.

    {model, load_time (s), cpu_memory (bytes by which the process grew), gpu_memory (bytes on the
    GPU, None without one), gpu_memory_reserved, parameter_count, parameter_bytes, buffer_bytes,
    model_size_mb (MiB), dtype, dtypes {name: bytes}, attention, device_bytes {device: bytes},
    device_map, offloaded {cpu, disk: names of modules}, device_copies {count, bytes, direction}:
    copies between devices}. The last four are None with profile_device_mapping off; with
    profile_model_loading off only `model` is there. OSError: there is none; what transformers
    raises passes.
    """
    config = measuring.config_or_default(config)
    make = _maker(source, config, model_class, device, device_map, dtype, options)
    if not config.profile_model_loading:
        return {"model": make()}
    watch = _placement(config)
    before = measuring.resident_bytes(), measuring.gpu_bytes()
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    began_ns = measuring.now_ns(place)
    with kinetoscope.profile_operation("load_model", "model_loading"), watch:
        model = make()
    elapsed = measuring.seconds(began_ns, measuring.now_ns(place))
    return {
        "model": model,
        "load_time": elapsed,
        "cpu_memory": measuring.resident_bytes() - before[0],
        **_gpu_growth(before[1]),
        **describe(model),
        **_places(model, config, watch, device_map is not None or config.use_device_map),
    }


def _maker(source, config, model_class, device, device_map, dtype, options):
    """A function that makes the model; all that can be wrong about arguments is said before."""
    import transformers

    shape = model_source.config_of(source)
    chosen = model_source.class_of(shape, model_class)
    device_map = "auto" if device_map is None and config.use_device_map else device_map
    options = dict(options)
    if "attn_implementation" not in options and not hasattr(shape, "quantization_config"):
        options["attn_implementation"] = "sdpa" if config.optimize_attention else "eager"
    dtype = measuring.dtype_of(dtype) or _dtype_of_config(config)
    is_shape = isinstance(source, transformers.PretrainedConfig)
    if dtype is not None:
        options[_dtype_keyword()] = dtype

    def make():
        if is_shape:
            model = model_source.make_from_config(copy.deepcopy(source), chosen, **options).eval()
        else:
            placing = {} if device_map is None else {"device_map": device_map}
            model = chosen.from_pretrained(source, **placing, **options)
        return model.to(device) if device is not None and device_map is None else model

    return lambda: _with_any_attention(make, options)


def _with_any_attention(make, options):
    """A model that has no sdpa says so by ValueError: then it chooses itself."""
    try:
        return make()
    except (ValueError, TypeError) as failure:
        if "attn_implementation" not in options or not _is_about_attention(failure):
            raise
        del options["attn_implementation"]
        return make()


def _is_about_attention(failure):
    text = str(failure).lower()
    return any(word in text for word in ("attn_implementation", "scaled_dot_product", "sdpa"))


def _dtype_of_config(config):
    wanted = config.mixed_precision_dtype if config.use_mixed_precision else "auto"
    return None if wanted in (None, "auto") else measuring.dtype_of(wanted)


def _dtype_keyword():
    """transformers 4.56 renamed it; both of its majors in use take one of the two."""
    import transformers

    major, minor = (int(part) for part in transformers.__version__.split(".")[:2])
    return "dtype" if (major, minor) >= (4, 56) else "torch_dtype"


def _placement(config):
    if not config.profile_device_mapping:
        return contextlib.nullcontext()
    return profile_device_placement("place_model")


def _gpu_growth(before):
    now = measuring.gpu_bytes()
    grown = [None if a is None else b - a for a, b in zip(before, now, strict=True)]
    return {"gpu_memory": grown[0], "gpu_memory_reserved": grown[1]}


def describe(model):
    """{parameter_count, parameter_bytes, buffer_bytes, model_size_mb, dtype, dtypes, attention}"""
    parameters, dtypes = list(model.parameters()), {}
    for parameter in parameters:
        name = measuring.name_of_dtype(parameter.dtype)
        size = parameter.numel() * parameter.element_size()
        dtypes[name] = dtypes.get(name, 0) + size
    size = measuring.bytes_of(parameters)
    return {
        "parameter_count": sum(p.numel() for p in parameters),
        "parameter_bytes": size,
        "buffer_bytes": measuring.bytes_of(list(model.buffers())),
        "model_size_mb": size / measuring.MEBIBYTE,
        "dtype": max(dtypes, key=dtypes.get) if dtypes else None,
        "dtypes": dtypes,
        "attention": model_source.attention_of(model),
    }


def _places(model, config, watch, is_mapped):
    names = ("device_bytes", "device_map", "offloaded", "device_copies")
    if not config.profile_device_mapping:
        return dict.fromkeys(names)
    by_device = {}
    for tensor in {id(t): t for t in [*model.parameters(), *model.buffers()]}.values():
        place = str(tensor.device)
        by_device[place] = by_device.get(place, 0) + tensor.numel() * tensor.element_size()
    chosen = getattr(model, "hf_device_map", None)
    if chosen is None and is_mapped:  # all of it went to one place, and transformers keeps no map
        chosen = {"": measuring.device_of(model)}
    result = watch.result
    return {
        "device_bytes": by_device,
        "device_map": None if chosen is None else {k: str(v) for k, v in chosen.items()},
        "offloaded": _offloaded(chosen),
        "device_copies": {
            "count": result["device_transfers"],
            "bytes": result["bytes"],
            "direction": result["direction"],
        },
    }


def _offloaded(chosen):
    """Modules that wait for their turn in another memory than that of the GPU. When all are on the
    CPU they wait for nothing."""
    if chosen is None:
        return None
    places = {str(place) for place in chosen.values()}
    waits = ("disk",) if places <= {"cpu", "disk"} else ("cpu", "disk")
    return {place: [k for k, v in chosen.items() if str(v) == place] for place in waits}
