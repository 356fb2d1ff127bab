"""Takes CUPTI out of the CUDA driver when the last profiler session of a window ends.

Torch leaves it in, and then each launch costs about 6 us more until the process ends: a program of
small kernels took 43 ms a step behind its window where it had taken 33 before. Torch's library for
traces takes it out at the end of a session when TEARDOWN_CUPTI is 1 at that moment. A session that
begins at once would not see the GPU, so this is for the last one only; later ones see it. What the
user or torch itself says about that variable stays as it is.
"""

import contextlib
import os

_VARIABLE = "TEARDOWN_CUPTI"
_CUDA_MIN = (12, 6)  # before that, torch keeps it from CUDA graphs


@contextlib.contextmanager
def last_session(torch):
    """Around the end of a session after which no other one of ours follows at once."""
    is_ours = _VARIABLE not in os.environ and _is_known_to_work(torch)
    if is_ours:
        os.environ[_VARIABLE] = "1"
    try:
        yield
    finally:
        if is_ours:
            os.environ.pop(_VARIABLE, None)


def _is_known_to_work(torch):
    version = (torch.version.cuda or "").split(".")
    try:
        numbers = tuple(int(word) for word in version[:2])
    except ValueError:
        return False
    return numbers >= _CUDA_MIN and torch.cuda.is_initialized()
