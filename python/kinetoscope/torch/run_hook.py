"""Installs what watches one process of a `kscope run`, when the program has imported torch."""

import atexit
import os

from kinetoscope.torch.loader_hooks import hook_loaders
from kinetoscope.torch.mark_hooks import hook_marks
from kinetoscope.torch.module_hooks import ModuleWatcher
from kinetoscope.torch.optimizer_hooks import hook_optimizers
from kinetoscope.torch.other_profiler import watch_other_profiler
from kinetoscope.torch.recorder import Recorder


def install(torch):
    """Hooks what can end a step, profilers, fork and exit. Called once."""
    if os.environ.get("KSCOPE_TUNE"):
        _install_tuned(torch)
        return
    if os.environ.get("KSCOPE_TUNED"):
        from kinetoscope.torch.tuned_settings import apply_settings

        apply_settings(torch)
    recorder = Recorder(torch)
    is_compiling = _is_compiling(torch)
    hook_optimizers(recorder, is_compiling)
    hook_marks(torch, recorder, recorder.mark_name, is_compiling)
    hook_loaders(recorder)
    recorder.modules = ModuleWatcher(torch, recorder, is_compiling)
    if recorder.mark_name is None:
        recorder.modules.begin()
    watch_other_profiler(torch, recorder.other_profiler_starts, recorder.other_profiler_stopped)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.after_fork)
    recorder.announce()
    atexit.register(recorder.at_exit)


def _install_tuned(torch):
    """A process of `kscope tune`: the same signs of steps, and nothing is recorded."""
    from kinetoscope.torch.tuned_session import TunedSession

    session = TunedSession(torch)
    is_compiling = _is_compiling(torch)
    hook_optimizers(session, is_compiling)
    hook_marks(torch, session, session.mark_name, is_compiling)
    hook_loaders(session)
    session.install()
    session.modules = ModuleWatcher(torch, session, is_compiling)
    session.modules.begin()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=session.after_fork)
    atexit.register(session.at_exit)


def _is_compiling(torch):
    """torch.compile traces optimizers and modules too; there our hooks must not be."""
    compiler = getattr(torch, "compiler", None)
    return getattr(compiler, "is_compiling", None) or (lambda: False)
