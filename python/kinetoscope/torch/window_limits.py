"""Says when a window must end before it has all its steps: it lasts too long, or grows too large.

torch does not tell how much it has recorded. But while it records, the memory that the process has
allocated grows by what it keeps of each event, and at the end of a step little else has changed.
So the size of the trace is estimated from the growth of the allocator's bytes in use (mallinfo2 of
glibc), or where there is no such function from that of the resident memory.
"""

import os
from time import monotonic

STEPS, SECONDS, BYTES = "steps", "seconds", "bytes"

# Bytes of uncompressed trace text for one byte in memory: measured, 1.07 to 1.41 in training
# programs of 50 to 20,000 operators a step, torch 2.13. More, for a window had better end early.
TEXT_PER_BYTE = 1.5


class WindowLimits:
    def __init__(self, spec):
        self._spec = spec
        self._begin_s = 0.0
        self._begin_bytes = 0
        self._allocated_bytes = _allocation_meter()
        self.bytes_estimated = 0

    def begin(self):
        """The window opens."""
        self._begin_s = monotonic()

    def begin_kept(self):
        """The first kept step begins: what comes now goes into the trace."""
        self._begin_bytes = self._allocated_bytes()

    def reached(self, kept_count):
        """STEPS, SECONDS or BYTES when the window must end after `kept_count` steps, else None."""
        grown = max(self._allocated_bytes() - self._begin_bytes, 0)
        self.bytes_estimated = int(grown * TEXT_PER_BYTE)
        if kept_count >= self._spec.active:
            return STEPS
        if monotonic() - self._begin_s >= self._spec.seconds_max:
            return SECONDS
        with_next = self.bytes_estimated * (kept_count + 1) // kept_count
        return BYTES if with_next > self._spec.bytes_max else None


def _allocation_meter():
    """A function that gives the bytes in use."""
    try:
        return _mallinfo_meter()
    except Exception:  # another C library
        return _resident_bytes


def _mallinfo_meter():
    import ctypes

    fields = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    names = fields.split()
    info_type = type(
        "mallinfo2", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_size_t) for name in names]}
    )
    function = ctypes.CDLL(None).mallinfo2
    function.restype = info_type

    def meter():
        info = function()
        return info.uordblks + info.hblkhd

    return meter


def _resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
