"""Kinetoscope: says where the time of a PyTorch step goes, and what would make it shorter.

Importing this package never imports torch; only `kinetoscope.torch` does, and only when asked.
Nothing is computed in Python: this package hooks PyTorch and hands over what it recorded.
"""

__version__ = "0.1.0"

_step = None  # set in a process that `kscope run` watches


def step():
    """Says that a step of the program has ended; `kscope run` then goes by this alone.

    Call it once at the end of each step, always in the same thread. It does nothing when the
    program does not run under `kscope run`, costs well under a microsecond then, and never raises.
    """
    if _step is not None:
        _step()


def __getattr__(name):
    # What is written in C is loaded when it is asked for: the start-up hook needs none of it.
    if name == "FunctionProfiler":
        try:
            from ._kscope import FunctionProfiler
        except ImportError:
            from ._kscope_functions import FunctionProfiler
        globals()[name] = FunctionProfiler
        return FunctionProfiler
    if name == "StackSampler":
        try:
            from ._kscope import StackSampler
        except ImportError:
            from ._kscope_sampler import StackSampler
        globals()[name] = StackSampler
        return StackSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
