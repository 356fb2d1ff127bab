"""Finds the outermost modules of a script in its first calls, and changes how they are called.

Two hooks on all modules stay from the first call until a module is called for the second time; what
is called outside any other module in between, and has parameters, is what the script calls its
model. Its weights get another layout, its `forward` runs under autocast, and `compile` is called in
place. The first call is always as without us.

`forward` is changed on the class, for these instances alone: one on the instance would be copied
with it, and a copy would compute with the weights of the original and could not be pickled.
"""

import functools
import threading
from importlib import import_module

MODELS_COMPILED_MAX = 8  # a script that calls layer by layer has no model to compile
DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


class ModelTuner:
    def __init__(self, torch, settings, refuse, switches):
        self._torch = torch
        self._settings = settings
        self._refuse = refuse
        self._switches = switches
        self._local = threading.local()
        self._handles = []
        self.models = []
        self.autocast = None  # name of the type that the script itself casts to
        self.has_scale = False  # of the loss: see tuned_scaler
        self.has_pictures = False  # inputs or weights of four dimensions

    def install(self):
        hooks = import_module("torch.nn.modules.module")
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]
        if self._settings.get("precision") == "fp16":
            from kinetoscope.torch.tuned_scaler import LossScaler

            LossScaler(self._torch).install()
            self.has_scale = True

    def facts(self):
        parameters = [p for model in self.models for p in model.parameters()]
        kinds = {str(p.dtype).removeprefix("torch.") for p in parameters}
        devices = {p.device.type for p in parameters}
        switches = self._switches
        is_compiled = switches.is_compiled or any(map(_is_compiled, self.models))
        return {
            "models": len(self.models),
            "dtype": kinds.pop() if len(kinds) == 1 else "mixed",
            "device": "cuda" if "cuda" in devices else "cpu",
            "pictures": int(self.has_pictures),
            "compiled": int(is_compiled),
            "autocast": self.autocast or "none",
        }

    # ---------------------------------------------------------------- the search

    def _enter(self, module, args):
        depth = getattr(self._local, "depth", 0)
        self._local.depth = depth + 1
        if depth > 0 or not self._handles or next(module.parameters(), None) is None:
            return
        if any(module is model for model in self.models):
            self._settle()
            return
        self.models.append(module)
        self._look_at(module, args)
        self._tune(module)

    def _leave(self, module, args, output):
        self._local.depth = max(getattr(self._local, "depth", 1) - 1, 0)

    def _look_at(self, module, args):
        torch = self._torch
        weights = any(p.dim() == 4 for p in module.parameters())
        self.has_pictures |= weights and any(
            isinstance(a, torch.Tensor) and a.dim() == 4 for a in args
        )
        for kind in ("cuda", "cpu"):
            if _is_casting(torch, kind):
                self.autocast = str(_cast_type(torch, kind)).removeprefix("torch.")

    def _settle(self):
        """No hook on all modules may be there when a module is compiled."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        self._switches.set_switches()
        if "compile" in self._settings and not self._switches.is_compiled:
            self._compile()

    # ---------------------------------------------------------------- what is changed

    def _tune(self, module):
        settings = self._settings
        if settings.get("layout") == "channels_last":
            self._turn_pictures(module)
        if settings.get("precision") in DTYPES:
            self._cast(module, DTYPES[settings["precision"]])

    def _turn_pictures(self, module):
        channels_last = self._torch.channels_last

        def turn(value):
            return value.contiguous(memory_format=channels_last) if value.dim() == 4 else value

        def tuned(forward, module, args, kwargs):
            return forward(module, *self._map(args, turn), **self._map(kwargs, turn))

        if self._change_forward(module, "layout", tuned):
            module.to(memory_format=channels_last)

    def _cast(self, module, name):
        """Outputs come back in fp32, so that a loss outside the model is computed as before."""
        torch = self._torch
        if self.autocast:
            self._refuse("precision", f"the script itself casts to {self.autocast}")
            return
        device = next(module.parameters()).device.type
        dtype = getattr(torch, name)

        def widen(value):
            return value.float() if value.dtype is dtype else value

        def tuned(forward, module, args, kwargs):
            with torch.autocast(device, dtype=dtype):
                output = forward(module, *args, **kwargs)
            return self._map(output, widen)

        self._change_forward(module, "precision", tuned)

    def _change_forward(self, module, name, tuned):
        """`tuned(forward, module, args, kwargs)` is called for this module. False: it cannot be."""
        if isinstance(module, self._torch.jit.ScriptModule):
            self._refuse(name, "a scripted module cannot be called in another way")
            return False
        if "forward" in vars(module):
            self._refuse(name, "the script has a forward of its own on the module")
            return False
        module_class = type(module)
        forward = module_class.forward
        wanted = id(module)  # self.models holds it, so that no other one gets this number

        @functools.wraps(forward)
        def changed(module, *args, **kwargs):
            if id(module) != wanted:
                return forward(module, *args, **kwargs)
            return tuned(forward, module, args, kwargs)

        module_class.forward = changed
        return True

    def _compile(self):
        if len(self.models) > MODELS_COMPILED_MAX:
            self._refuse("compile", f"the script calls {len(self.models)} modules, and no model")
            return
        for module in self.models:
            if not hasattr(module, "compile"):
                self._refuse("compile", "this torch cannot compile a module in place")
            elif not _is_compiled(module):
                module.compile(mode=self._settings["compile"])

    def _map(self, value, change):
        """The same with its tensors changed; what is none stays."""
        if isinstance(value, self._torch.Tensor):
            return change(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._map(item, change) for item in value))
        if isinstance(value, tuple | list):
            return type(value)(self._map(item, change) for item in value)
        if isinstance(value, dict):
            return type(value)({key: self._map(item, change) for key, item in value.items()})
        return value


def _is_compiled(module):
    is_wrapper = type(module).__name__ == "OptimizedModule"
    return is_wrapper or getattr(module, "_compiled_call_impl", None) is not None


def _is_casting(torch, kind):
    try:
        return torch.is_autocast_enabled(kind)
    except TypeError:  # before 2.4 each kind has a function of its own
        return torch.is_autocast_enabled() if kind == "cuda" else torch.is_autocast_cpu_enabled()


def _cast_type(torch, kind):
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(kind)
    return torch.get_autocast_gpu_dtype() if kind == "cuda" else torch.get_autocast_cpu_dtype()
