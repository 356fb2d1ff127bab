"""Faults of a training, found while it runs, at almost no cost (docs/debugging.md).

Its modules are loaded when they are asked for, and torch with them.
"""

from kinetoscope._lazy import names_of

PUBLIC = {
    "SWITCHES": "switches",
    "add_metric": "session",
    "debugging": "session",
    "disable_debugging": "session",
    "enable_debugging": "session",
    "get_debugging_status": "session",
    "note": "session",
    "profile_model_performance": "model_performance",
    "remove_metric": "session",
}

__getattr__, __dir__ = names_of(globals(), PUBLIC)
