"""Tells the recorder of optimizers and their steps, skipped ones too."""

import functools
from importlib import import_module


def hook_optimizers(recorder, is_compiling):
    """The global hook says that a step was made, the wrapper when its annotation has ended.

    torch calls the hook inside record_function("Optimizer.step#..."): a step that ended there
    would cut that annotation in two. Each of the two works without the other.
    """
    optimizer_module = import_module("torch.optim.optimizer")  # no attribute of torch.optim
    register = getattr(optimizer_module, "register_optimizer_step_post_hook", None)

    def post_hook(optimizer, args, kwargs):
        if not is_compiling():
            recorder.optimizer_stepped(optimizer)

    if register is not None:
        register(post_hook)
    _wrap_step(optimizer_module.Optimizer, recorder, is_compiling, has_hook=register is not None)
    _wrap_scaler(recorder, is_compiling)


def _wrap_step(optimizer_class, recorder, is_compiling, has_hook):
    """torch gives each class's step to profile_hook_step when the first of the class is made."""
    profile_hook_step = getattr(optimizer_class, "profile_hook_step", None)
    if profile_hook_step is None:
        return

    def profile_hook_step_and_tell(step):
        recorder.optimizer_made()
        inner = profile_hook_step(step)

        @functools.wraps(step)  # __wrapped__ is what it is without us
        def outer(optimizer, *args, **kwargs):
            if is_compiling():
                return inner(optimizer, *args, **kwargs)
            recorder.optimizer_called()
            try:
                result = inner(optimizer, *args, **kwargs)
                if not has_hook:
                    recorder.optimizer_stepped(optimizer)
                return result
            finally:
                recorder.optimizer_returned()

        return outer

    optimizer_class.profile_hook_step = staticmethod(profile_hook_step_and_tell)


def _wrap_scaler(recorder, is_compiling):
    """A GradScaler leaves a step out when gradients overflow: for us it is a step all the same."""
    for module_name in ("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler"):
        try:
            scaler_class = import_module(module_name).GradScaler
        except (ImportError, AttributeError):
            continue
        if "step" in vars(scaler_class):  # the second one inherits it
            scaler_class.step = _scaler_step(scaler_class.step, recorder, is_compiling)


def _scaler_step(step, recorder, is_compiling):
    @functools.wraps(step)
    def outer(scaler, optimizer, *args, **kwargs):
        if is_compiling():
            return step(scaler, optimizer, *args, **kwargs)
        recorder.optimizer_called()
        before = recorder.stepped_count
        try:
            result = step(scaler, optimizer, *args, **kwargs)
            if recorder.stepped_count == before:
                recorder.optimizer_stepped(optimizer)
            return result
        finally:
            recorder.optimizer_returned()

    return outer
