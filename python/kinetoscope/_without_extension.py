"""Stands in for the C extension where there is none: the same names, and nothing is recorded."""


class RecordingError(RuntimeError):
    """A recording could not be started; the message says why. The program can go on without."""


class profile_operation:  # noqa: N801 - the name that users write
    """A labelled region, which nothing records here."""

    def __init__(self, name, category="custom"):
        self.name, self.category = _text(name, "name"), _text(category, "category")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __call__(self, function):
        from kinetoscope._decorate import decorate

        return decorate(self, function)

    def begin(self):
        pass

    def end(self):
        pass

    def set(self, key, value, /):
        _text(key, "key")
        _value(value, (str,))


class counter:  # noqa: N801
    """A number over time, which nothing records here."""

    def __init__(self, name, category="custom", unit=""):
        self.name, self.category = _text(name, "name"), _text(category, "category")
        self.unit = _text(unit, "unit")
        self.value = 0

    def add(self, amount, /):
        self.value += _value(amount)

    def set(self, value, /):
        self.value = _value(value)


def marker(name, category="custom", **values):
    _text(name, "name")
    _text(category, "category")
    for value in values.values():
        _value(value, (str,))


def stop_recording():
    pass


def is_recording():
    return False


def recording_path():
    return None


def _start(*_):
    from kinetoscope import _extension

    raise RecordingError(f"there is no kinetoscope extension for this Python ({_extension.reason})")


def _note(key, text, /):
    pass


def _text(text, what):
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    return text


def _value(value, more=()):
    if isinstance(value, (int, float, *more)) or hasattr(type(value), "__index__"):
        return value
    raise TypeError(f"value must be a number, not {type(value).__name__}")
