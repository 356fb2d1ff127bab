"""Packages whose modules are loaded when one of their names is asked for."""

from importlib import import_module


def names_of(namespace, public):
    """`__getattr__` and `__dir__` of a package with these globals.

    public: {name: the module of the package where it lies}.
    """
    package = namespace["__name__"]

    def find(name):
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(f"{package}.{public[name]}"), name)
        return value

    return find, lambda: sorted({*namespace, *public})
