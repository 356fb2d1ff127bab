"""Installs what watches one process of a `kscope run`, when the program has imported torch."""

import atexit
import os

from kinetoscope.torch.loader_hooks import hook_loaders
from kinetoscope.torch.mark_hooks import hook_marks
from kinetoscope.torch.module_hooks import ModuleWatcher
from kinetoscope.torch.optimizer_hooks import hook_optimizers
from kinetoscope.torch.recorder import Recorder


def install(torch):
    """Hooks what can end a step, profilers, fork and exit. Called once."""
    watch = _tuned(torch) if os.environ.get("KSCOPE_TUNE") else _recorded(torch)
    is_compiling = _is_compiling(torch)
    hook_optimizers(watch, is_compiling)
    hook_marks(torch, watch, watch.mark_name, is_compiling)
    hook_loaders(watch)
    watch.modules = ModuleWatcher(torch, watch, is_compiling)
    watch.install()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=watch.after_fork)
    atexit.register(watch.at_exit)


def _recorded(torch):
    if os.environ.get("KSCOPE_TUNED"):
        from kinetoscope.torch.tuned_settings import apply_settings

        apply_settings(torch)
    return Recorder(torch)


def _tuned(torch):
    """Of a process of `kscope tune`: the same signs of steps, and nothing is recorded."""
    from kinetoscope.torch.tuned_session import TunedSession

    return TunedSession(torch)


def _is_compiling(torch):
    """torch.compile traces optimizers and modules too; there our hooks must not be."""
    compiler = getattr(torch, "compiler", None)
    return getattr(compiler, "is_compiling", None) or (lambda: False)
