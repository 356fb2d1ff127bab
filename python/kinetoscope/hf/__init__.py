"""What needs transformers; its modules are loaded when they are asked for."""

PUBLIC = {"KinetoscopeCallback": "trainer_callback"}


def __getattr__(name):
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *PUBLIC})
