"""Sweeps over one property of how a model runs: precision, compilation, layout, attention, threads,
optimizer. Each takes the same arguments (`sweep_precision` describes them)."""

import os

import torch
from torch.profiler import ProfilerActivity

from kinetoscope.torch.state_guard import kept_random
from kinetoscope.torch.trace_session import is_profiling
from kinetoscope.tune import stopwatch
from kinetoscope.tune.contest import AS_IT_IS, Contest, run_sweep
from kinetoscope.tune.setting import BACKENDS, Setting
from kinetoscope.tune.work import Runner, Work, as_batch

SECONDS = 10.0
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs")
_PRECISION_KEYS = {"dtype", "enabled", "tf32"}


def sweep_precision(
    model,
    inputs,
    configs=None,
    *,
    target=None,
    loss_fn=None,
    optimizer=None,
    training=None,
    seconds=SECONDS,
    tolerance=None,
):
    """Runs a model in several number formats; `.best` is the quickest whose results are right.

    inputs: a tensor, a tuple of arguments or a dict of them; target: what the loss compares the
    output with. Of a model in training mode (or with training=True) whole steps are run: forward,
    loss (loss_fn(output, target), else the output's own, else cross-entropy for classes, else a
    sum of the outputs), backward, and the optimizer where one is given. Else forwards without
    gradients.

    configs: [{"dtype", "enabled", "tf32"}]: autocast to dtype while enabled, TF32 on a GPU. The
    first one that is right is the baseline. Without configs: as it is, TF32 where the GPU has it,
    bfloat16, float16 (with a scaled loss in training).

    Outputs, gradients, buffers and the losses of a short training must agree with those of the
    model as it is within the tolerance of the format (docs/tuning_python.md), or within `tolerance`
    where one is given. `seconds` bounds the timing. Model, optimizer, random states and
    torch's switches are as before: a copy is tried. Returns a SweepResult. TypeError: no module, or
    one that cannot be copied; ValueError: a config that is none.
    """
    work = _work(model, inputs, target, loss_fn, optimizer, training)
    configs = _precision_configs(work) if configs is None else configs
    settings = [
        (_precision_setting(config), config, _precision_label(config)) for config in configs
    ]
    return run_sweep("precision", work, settings, seconds, tolerance)


def _work(model, inputs, target, loss_fn, optimizer, training):
    return Work(model, [as_batch(inputs, target)], loss_fn, optimizer, training)


def _precision_configs(work):
    configs = [{"dtype": torch.float32, "enabled": False}]
    if work.device.type == "cuda" and torch.cuda.get_device_capability(work.device) >= (8, 0):
        configs.append({"dtype": torch.float32, "enabled": False, "tf32": True})
    halves = (torch.bfloat16, torch.float16)
    return [*configs, *({"dtype": dtype, "enabled": True} for dtype in halves)]


def _precision_setting(config):
    unknown = set(config) - _PRECISION_KEYS
    dtype = config.get("dtype", torch.float32)
    if unknown or not isinstance(dtype, torch.dtype):
        raise ValueError(f"a precision has the keys {sorted(_PRECISION_KEYS)}, not {config!r}")
    if config.get("tf32"):
        return Setting(precision="tf32")
    if not config.get("enabled", True) or dtype == torch.float32:
        return AS_IT_IS
    if dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"autocast is to float16 or bfloat16, not {dtype}")
    return Setting(precision=str(dtype).removeprefix("torch."))


def _precision_label(config):
    setting = _precision_setting(config)
    return setting.precision or "as it is"


def sweep_compile(model, inputs, modes=None, *, seconds=SECONDS, tolerance=None, **work_options):
    """Compiles a model in several modes of torch.compile. modes: names; without any default,
    reduce-overhead on a GPU, max-autotune-no-cudagraphs. Compiling is not in the times."""
    work = _of_options(model, inputs, work_options)
    if modes is None:
        is_gpu = work.device.type == "cuda"
        modes = [m for m in COMPILE_MODES if is_gpu or m != "reduce-overhead"]
    settings = [(AS_IT_IS, {"compile": None}, "as it is")]
    settings += [(Setting(compile=mode), {"compile": mode}, mode) for mode in modes]
    return run_sweep("compile", work, settings, seconds, tolerance)


def _of_options(model, inputs, options):
    names = ("target", "loss_fn", "optimizer", "training")
    unknown = set(options) - set(names)
    if unknown:
        raise TypeError(f"unexpected arguments: {', '.join(sorted(unknown))}")
    return _work(model, inputs, *(options.get(name) for name in names))


def sweep_channels_last(model, inputs, *, seconds=SECONDS, tolerance=None, **work_options):
    """Runs a model with images in both memory layouts."""
    work = _of_options(model, inputs, work_options)
    settings = [
        (AS_IT_IS, {"channels_last": False}, "as it is"),
        (Setting(channels_last=True), {"channels_last": True}, "channels_last"),
    ]
    notes = [] if has_images(model) else ["the model has no weights of four dimensions"]
    return run_sweep("channels_last", work, settings, seconds, tolerance, notes=notes)


def has_images(model):
    """Whether the layout of images means anything to a model."""
    return any(parameter.dim() == 4 for parameter in model.parameters())


def sweep_attention(
    model, inputs, backends=None, *, seconds=SECONDS, tolerance=None, **work_options
):
    """Runs a model with each backend of scaled_dot_product_attention alone. backends: of math,
    flash, efficient, cudnn; those that cannot take the inputs fail, and the row says why."""
    work = _of_options(model, inputs, work_options)
    names = list(BACKENDS) if backends is None else list(backends)
    if set(names) - set(BACKENDS):
        raise ValueError(f"backends of attention are {', '.join(BACKENDS)}, not {names}")
    if backends is None and work.device.type != "cuda":
        names = [name for name in names if name in ("math", "flash")]
    settings = [(AS_IT_IS, {"attention": None}, "as it is")]
    if not calls_attention(work):
        notes = ["the model does not call scaled_dot_product_attention"]
        return run_sweep("attention", work, settings, seconds, tolerance, notes=notes)
    settings += [(Setting(attention=name), {"attention": name}, name) for name in names]
    return run_sweep("attention", work, settings, seconds, tolerance)


def calls_attention(work):
    """Whether a forward of the model calls scaled_dot_product_attention; True where a profiler of
    the program runs, and none of ours can look."""
    if is_profiling():
        return True
    runner = Runner(work)
    with kept_random(), torch.profiler.profile(activities=[ProfilerActivity.CPU]) as profile:
        runner.infer()
    work.restore()
    return any("scaled_dot_product" in event.name for event in profile.events())


def sweep_threads(model, inputs, counts=None, *, seconds=SECONDS, tolerance=None, **work_options):
    """Runs a model with several numbers of threads for operators on the CPU. counts: numbers;
    without any powers of two up to the cores that this process may use."""
    work = _of_options(model, inputs, work_options)
    now = torch.get_num_threads()
    counts = thread_counts() if counts is None else list(counts)
    if any(not isinstance(count, int) or count < 1 for count in counts):
        raise ValueError(f"numbers of threads are 1 and more, not {counts}")
    settings = [(AS_IT_IS, {"threads": now}, f"{now}, as it is")]
    settings += [(Setting(threads=n), {"threads": n}, str(n)) for n in counts if n != now]
    return run_sweep("threads", work, settings, seconds, tolerance)


def thread_counts():
    """Powers of two up to the cores that this process may use, and all of them."""
    cores = len(os.sched_getaffinity(0))
    powers = [2**k for k in range(cores.bit_length()) if 2**k < cores]
    return [*powers, cores]


def sweep_optimizer(
    model, inputs, *, optimizer, seconds=SECONDS, tolerance=None, target=None, loss_fn=None
):
    """Trains with each implementation of the optimizer that torch has: a loop over parameters, a
    few calls for all of them (foreach), one kernel (fused). ValueError: the optimizer has no
    choice."""
    work = _work(model, inputs, target, loss_fn, optimizer, True)
    kinds = optimizer_kinds(optimizer)
    if not kinds:
        raise ValueError(f"{type(optimizer).__name__} has one implementation only")
    settings = [(AS_IT_IS, {"optimizer": None}, "as it is")]
    settings += [(Setting(optimizer=kind), {"optimizer": kind}, kind) for kind in kinds]
    return run_sweep("optimizer", work, settings, seconds, tolerance)


def optimizer_kinds(optimizer):
    """Implementations that its class offers."""
    offered = {"fused": "fused", "foreach": "foreach", "loop": "foreach"}
    return [kind for kind, switch in offered.items() if switch in optimizer.defaults]


def sweep_quantization(
    model, inputs, configs=None, *, score=None, seconds=SECONDS, tolerance=None, objective="time"
):
    """Runs a model for inference with weights of fewer bits: speed, size and accuracy.

    configs: [{"quantization": name}] of int8_dynamic (torch, on a CPU), int8_weight_only and
    int4_weight_only (torchao, where it is installed). Rows have `size_bytes`, as saved;
    `agreement`: the share of samples whose largest output is the same; `score`: what
    score(output) says, a function of the program. objective: "time", or "size", which takes the
    smallest that is right and not slower.
    """
    from kinetoscope.tune.quantization import WAYS
    from kinetoscope.tune.quantized_rows import add_quality, choose_smallest

    if objective not in ("time", "size"):
        raise ValueError(f"objective is time or size, not {objective!r}")
    names = list(WAYS) if configs is None else [config["quantization"] for config in configs]
    work = _work(model, inputs, None, None, None, False)
    with Contest(work, tolerance) as contest:
        contest.admit(AS_IT_IS, {"quantization": None})
        for name in names:
            reason = None if name is None else _missing(WAYS, name, model)
            if reason is not None:
                contest.leave_out(name, {"quantization": name}, reason)
            elif name is not None:
                contest.admit(Setting(quantization=name), {"quantization": name}, name)
        add_quality(contest, score)
        result = contest.result("quantization", contest.race(seconds))
    return choose_smallest(result) if objective == "size" else result


def _missing(ways, name, model):
    if name not in ways:
        raise ValueError(f"quantization is one of {', '.join(ways)}, not {name!r}")
    return ways[name].missing(model)


def device_name(model):
    """As code names it."""
    return stopwatch.device_of(model).type
