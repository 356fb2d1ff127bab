"""How much memory of this machine can still be taken."""

import gc

UNKNOWN = 1 << 30  # where the kernel does not say: little enough to do no harm


def available_bytes():
    """Without making the kernel swap, once garbage is gone."""
    gc.collect()
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = [int(line.split()[1]) for line in file if line.startswith("MemAvailable:")]
    except OSError:
        return UNKNOWN
    return found[0] * 1024 if found else UNKNOWN
