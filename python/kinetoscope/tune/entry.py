"""What a script says to `kscope tune` about choices of its own.

    from kinetoscope.tune.entry import entry

    workers = entry("workers", 0, 2, 4)
    kernel = entry("kernel", "plain", "blocked", exact=False)

Each call names one knob and what it can be; the first choice is what a run without `kscope tune`
gets, and the one that all others are measured against. With `exact` the losses must be the same
whatever is chosen, else they may differ by rounding. `kinetoscope.step()` at the end of each step
says what a step is where it cannot be found. Imports no torch, and costs nothing when nobody tunes.
"""

import os

_knobs = {}  # name -> (choices, exact)


def entry(name, *choices, exact=True):
    """The choice for this run: of the setting that is tried or applied, else the first one."""
    if not choices:
        raise ValueError(f"entry {name!r} has no choices")
    if not name or not all(c.isalnum() or c in "_-" for c in name):
        raise ValueError(f"{name!r} is no name of an entry: letters, digits, _ and - make one")
    _knobs[name] = (choices, exact)
    index = _chosen(name)
    return choices[index] if 0 <= index < len(choices) else choices[0]


def knobs():
    """{name: (choices, exact)} of all entries that the script has asked for."""
    return dict(_knobs)


def _chosen(name):
    for word in os.environ.get("KSCOPE_TUNED", "").split(","):
        key, _, value = word.partition("=")
        if key == f"entry.{name}" and value.isascii() and value.isdigit():
            return int(value)
    return 0
