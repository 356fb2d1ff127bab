"""profile_diffusion_pipeline: text encoders, each denoising step and the VAE of a pipeline."""

import contextlib

import torch

import kinetoscope
from kinetoscope._engine import summarize
from kinetoscope.hf import measuring
from kinetoscope.torch.state_guard import kept_random

_TEXT_ENCODERS = ("text_encoder", "text_encoder_2", "text_encoder_3", "prior_text_encoder")
_DENOISERS = ("unet", "transformer", "prior")


def profile_diffusion_pipeline(pipeline, *inputs, config=None, runs=1, warm_up=True, **options):
    """Calls a pipeline of diffusers and says what its parts took.

    inputs, options: for the call (a prompt, num_inference_steps, ...). warm_up: one call before is
    not counted.

    {output (of the last call), total_time, total_times, text_encoder, denoiser, vae_encode,
    vae_decode, scheduler: {time (s in a call, median), calls, share (of total_time)} or None where
    a pipeline has none, steps, step_times (s of each denoising step of the last call: from one step
    of the scheduler to the next), step_time {count, mean, std, p50, ...}, other_time,
    peak_memory (bytes above what was there; on the CPU of a call of its own), component_bytes
    {name: bytes}}. With profile_inference off all but component_bytes is None. Nothing of the
    pipeline changes.
    """
    config = measuring.config_or_default(config)
    parts = _modules_of(pipeline)
    sizes = {name: measuring.model_bytes(module) for name, module in parts.items()}
    if not config.profile_inference:
        return {**dict.fromkeys(_KEYS), "component_bytes": sizes}
    device = _device(pipeline, parts)

    def call():
        return pipeline(*inputs, **options)

    with kept_random(), kinetoscope.profile_operation("diffusion_pipeline", "pipeline"):
        if warm_up:
            call()
        peak = measuring.peak_bytes(call, device)
        rows = [_timed(pipeline, parts, call, device) for _ in range(max(runs, 1))]
    return {**_figures(rows), "peak_memory": peak, "component_bytes": sizes}


_PARTS = ("text_encoder", "denoiser", "vae_encode", "vae_decode", "scheduler")
_KEYS = (
    "output",
    "total_time",
    "total_times",
    *_PARTS,
    "steps",
    "step_times",
    "step_time",
    "other_time",
    "peak_memory",
)


def _modules_of(pipeline):
    components = getattr(pipeline, "components", None) or vars(pipeline)
    return {k: v for k, v in components.items() if isinstance(v, torch.nn.Module)}


def _device(pipeline, parts):
    for name in (*_DENOISERS, *parts):
        if name in parts:
            return measuring.device_of(parts[name])
    return torch.device("cpu")


def _timed(pipeline, parts, call, device):
    clock = _Parts(device)
    with contextlib.ExitStack() as stack:
        for name, module in parts.items():
            if name in _TEXT_ENCODERS:
                stack.enter_context(clock.covered(module, "forward", "text_encoder"))
            elif name in _DENOISERS:
                stack.enter_context(clock.covered(module, "forward", "denoiser"))
                stack.enter_context(clock.seen_to_begin(module))
        vae = getattr(pipeline, "vae", None) or getattr(pipeline, "vqvae", None)
        for way in ("encode", "decode"):
            if callable(getattr(vae, way, None)):
                stack.enter_context(clock.covered(vae, way, f"vae_{way}"))
        if callable(getattr(pipeline.scheduler, "step", None)):
            stack.enter_context(clock.covered(pipeline.scheduler, "step", "scheduler"))
        began_ns = measuring.now_ns(device)
        output = call()
        total = measuring.seconds(began_ns, measuring.now_ns(device))
    return {"output": output, "total": total, "parts": clock.times, "steps": clock.steps()}


class _Parts:
    """Times of parts in one call. A part that calls itself counts once."""

    def __init__(self, device):
        self.times = {}  # part -> [seconds, calls]
        self._device = device
        self._begun_ns = []  # when denoisers began
        self._ends_ns = []  # when steps of the scheduler ended
        self._open = set()

    @contextlib.contextmanager
    def covered(self, owner, name, part):
        """In the block a method of the owner is timed; its instance covers it as long."""
        own = vars(owner).get(name)
        function = getattr(owner, name)
        region = kinetoscope.profile_operation(part, "inference")
        self.times.setdefault(part, [0.0, 0])

        def timed(*args, **kwargs):
            if part in self._open:
                return function(*args, **kwargs)
            self._open.add(part)
            began_ns = measuring.now_ns(self._device)
            try:
                with region:
                    return function(*args, **kwargs)
            finally:
                self._open.discard(part)
                self._keep(part, began_ns, measuring.now_ns(self._device))

        setattr(owner, name, timed)
        try:
            yield
        finally:
            if own is None:
                delattr(owner, name)
            else:
                setattr(owner, name, own)

    @contextlib.contextmanager
    def seen_to_begin(self, denoiser):
        """A step has begun before other hooks of its denoiser run, which may move its weights."""
        handle = denoiser.register_forward_pre_hook(self._begin, prepend=True)
        try:
            yield
        finally:
            handle.remove()

    def _begin(self, module, args):
        self._begun_ns.append(measuring.now_ns(self._device))

    def _keep(self, part, began_ns, ended_ns):
        self.times[part][0] += measuring.seconds(began_ns, ended_ns)
        self.times[part][1] += 1
        if part == "scheduler":
            self._ends_ns.append(ended_ns)

    def steps(self):
        """Lengths of denoising steps: the first begins with the denoiser."""
        if not self._ends_ns or not self._begun_ns:
            return []
        moments = [self._begun_ns[0], *self._ends_ns]
        return [measuring.seconds(a, b) for a, b in zip(moments, moments[1:], strict=False)]


def _figures(rows):
    last = rows[-1]
    total = summarize([row["total"] for row in rows])["p50"]
    steps = [length for row in rows for length in row["steps"]]
    others = [row["total"] - sum(time for time, _ in row["parts"].values()) for row in rows]
    return {
        "output": last["output"],
        "total_time": total,
        "total_times": [row["total"] for row in rows],
        **{part: _part(rows, part, total) for part in _PARTS},
        "steps": len(last["steps"]),
        "step_times": last["steps"],
        "step_time": summarize(steps),
        "other_time": summarize(others)["p50"],
    }


def _part(rows, part, total):
    if part not in rows[-1]["parts"]:
        return None
    time = summarize([row["parts"][part][0] for row in rows])["p50"]
    return {"time": time, "calls": rows[-1]["parts"][part][1], "share": time / total}
