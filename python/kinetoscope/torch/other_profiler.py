"""Notices when the program starts or stops a profiler of its own: it always has precedence.

Only one torch.profiler can run in a process. All its front ends (torch.profiler.profile,
torch.autograd.profiler.profile, emit_nvtx, emit_itt) go through three functions that
torch.autograd.profiler imports by name, so these names are wrapped.
"""

import functools

_START = ("_prepare_profiler", "_enable_profiler")
_STOP = ("_disable_profiler",)


def watch_other_profiler(torch, on_start, on_stop):
    """Calls `on_start` before and `on_stop` after each; neither may raise."""
    module = torch.autograd.profiler
    for name in _START:
        _wrap(module, name, before=on_start)
    for name in _STOP:
        _wrap(module, name, after=on_stop)


def _wrap(module, name, before=None, after=None):
    function = getattr(module, name, None)
    if function is None:
        return

    @functools.wraps(function)
    def watched(*args, **kwargs):
        if before is not None:
            before()
        try:
            return function(*args, **kwargs)
        finally:
            if after is not None:
                after()

    setattr(module, name, watched)
