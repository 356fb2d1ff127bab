"""The settings that `kscope tune` tries and `kscope run --tuned` applies, as the hooks see them.

They come by KSCOPE_TUNED as words with commas between them: `workers=4,compile=default`. What the
names mean stands in docs/tuning.md; here each is put into effect without a change of the script:

  when torch is imported    loaders (tuned_loader.py), optimizers, torch.compile, switches of torch
  at the first calls        the outermost modules (tuned_model.py), and the switches once more, for
                            a script that sets them itself
"""

import atexit
import functools
import os
from importlib import import_module

from kinetoscope.torch.tuned_loader import LoaderTuner
from kinetoscope.torch.tuned_model import ModelTuner

ENTRY = "entry."  # before the names of a script's own knobs (kinetoscope.tune.entry)
FUSABLE = ("Adam", "AdamW", "SGD", "Adagrad")


def settings_of_environment():
    """{name: value}, both texts."""
    words = os.environ.get("KSCOPE_TUNED", "").split(",")
    return dict(word.split("=", 1) for word in words if "=" in word)


class TunedSettings:
    """Puts settings into effect. `refuse(name, why)` hears of those that cannot be."""

    def __init__(self, torch, settings, refuse):
        self._torch = torch
        self._settings = settings
        self._refuse = refuse
        self.optimizers = {}  # name of a class -> what its last instance was made with
        self.is_compiled = False  # by the script itself
        self.loaders = LoaderTuner(torch, settings, refuse)
        self.model = ModelTuner(torch, settings, refuse, self)

    def install(self):
        self.loaders.install()
        self._hook_optimizers()
        self._hook_compile()
        self.set_switches()
        self.model.install()

    # ---------------------------------------------------------------- switches of torch

    def set_switches(self):
        """Those that hold for the whole process; a script may have set them after us."""
        torch, settings = self._torch, self._settings
        if settings.get("precision") == "tf32":
            torch.set_float32_matmul_precision("high")
            torch.backends.cudnn.allow_tf32 = True
        if "cudnn" in settings:
            torch.backends.cudnn.benchmark = settings["cudnn"] == "benchmark"
        if "attention" in settings:
            for name in ("enable_flash_sdp", "enable_mem_efficient_sdp", "enable_cudnn_sdp"):
                getattr(torch.backends.cuda, name, lambda on: None)(True)
        if "threads" in settings:
            torch.set_num_threads(int(settings["threads"]))

    # ---------------------------------------------------------------- optimizers

    def _hook_optimizers(self):
        for name in FUSABLE:
            optimizer_class = getattr(self._torch.optim, name, None)
            if optimizer_class is not None:
                self._hook_optimizer(name, optimizer_class)

    def _hook_optimizer(self, name, optimizer_class):
        made = optimizer_class.__init__

        @functools.wraps(made)
        def init(optimizer, *args, **kwargs):
            if type(optimizer).__name__ == name:
                self.optimizers[name] = dict(kwargs)
            wanted = self._settings.get("optimizer")
            if wanted not in ("fused", "foreach") or kwargs.get("differentiable"):
                return made(optimizer, *args, **kwargs)
            params = _listed(args[0] if args else kwargs.get("params"))
            if params is None:
                return made(optimizer, *args, **kwargs)
            args = (params, *args[1:])
            kwargs = {k: v for k, v in kwargs.items() if k != "params"}
            if any(self._torch.is_complex(t) for t in _tensors_in(params)):
                self._refuse("optimizer", f"{name} has complex parameters")
                return made(optimizer, *args, **kwargs)
            tuned = {k: v for k, v in kwargs.items() if k not in ("fused", "foreach")}
            try:
                return made(optimizer, *args, **{**tuned, wanted: True})
            except (RuntimeError, TypeError, ValueError) as failure:
                self._refuse("optimizer", f"{name}({wanted}=True): {failure}")
                return made(optimizer, *args, **kwargs)

        optimizer_class.__init__ = init

    # ---------------------------------------------------------------- torch.compile

    def _hook_compile(self):
        """A script that compiles gets another mode, and nothing is compiled a second time."""
        torch, mode = self._torch, self._settings.get("compile")
        compile_ = getattr(torch, "compile", None)
        if compile_ is None:
            return

        @functools.wraps(compile_)
        def tuned_compile(*args, **kwargs):
            self.is_compiled = True
            if mode is not None and "options" not in kwargs:
                kwargs["mode"] = mode
            return compile_(*args, **kwargs)

        torch.compile = tuned_compile


def _listed(params):
    """What an optimizer is made for, with lists for what can be gone through only once."""
    if not hasattr(params, "__iter__") or hasattr(params, "requires_grad"):
        return None  # the optimizer says what is wrong
    return [_listed_group(one) if isinstance(one, dict) else one for one in params]


def _listed_group(group):
    params = group.get("params")
    is_one = params is None or hasattr(params, "requires_grad")
    return group if is_one else {**group, "params": list(params)}


def _tensors_in(params):
    """Of parameters, pairs of a name and a parameter, and groups of such."""
    for one in params:
        if isinstance(one, dict):
            inner = one.get("params", ())
            yield from _tensors_in([inner] if hasattr(inner, "requires_grad") else inner)
        else:
            yield one[-1] if isinstance(one, tuple) else one


def apply_settings(torch):
    """For `kscope run --tuned`: what cannot be applied is left out, and said on standard error."""
    settings = settings_of_environment()
    if not settings:
        return
    import sys

    def refuse(name, why):
        print(f"kscope: {name} is not applied: {why}", file=sys.stderr)

    tuned = TunedSettings(torch, settings, refuse)
    tuned.install()
    atexit.register(tuned.loaders.refuse_untaken)


def optimizer_can_fuse(torch, optimizer):
    """Does the class have a fused form for all its parameters? As torch itself asks."""
    if not any(isinstance(optimizer, getattr(torch.optim, name, ())) for name in FUSABLE):
        return False
    if not all("fused" in group for group in optimizer.param_groups):
        return False
    devices = {p.device.type for group in optimizer.param_groups for p in group["params"]}
    try:
        foreach_utils = import_module("torch.utils._foreach_utils")
        supported = foreach_utils._get_fused_kernels_supported_devices()
    except (ImportError, AttributeError):
        supported = ["cuda"]
    floats = all(p.is_floating_point() for g in optimizer.param_groups for p in g["params"])
    return floats and devices <= set(supported)
