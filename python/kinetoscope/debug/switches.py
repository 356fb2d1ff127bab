"""Names of the debug switches, which are those of ProfilingConfig."""

SWITCHES = (
    "enable_autograd_anomaly",
    "enable_autograd_profiler",
    "enable_tensorboard_profiler",
    "debug_memory_usage",
    "debug_gradient_norms",
    "debug_forward_pass",
    "debug_backward_pass",
    "debug_device_placement",
    "debug_mixed_precision",
    "debug_data_loading",
    "debug_validation",
    "debug_early_stopping",
    "debug_lr_scheduling",
)

_BY_NAME = {name: name for name in SWITCHES} | {name.split("_", 1)[1]: name for name in SWITCHES}


def resolve(names=None):
    """Full names of these switches, given with or without what is before the first "_"; all of them
    without names. ValueError for one that is none, with the list."""
    if names is None:
        return SWITCHES
    given = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in given if name not in _BY_NAME]
    if unknown:
        known = ", ".join(name.split("_", 1)[1] for name in SWITCHES)
        raise ValueError(f"no debug switch {unknown[0]!r}; there are: {known}")
    return tuple(dict.fromkeys(_BY_NAME[name] for name in given))


def switches_of(config):
    """The debug_ switches that are on in a ProfilingConfig."""
    return tuple(name for name in SWITCHES if name.startswith("debug_") and getattr(config, name))
