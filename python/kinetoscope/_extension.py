"""Finds the C extension: beside this file when installed, in build/ in a source tree.

Where there is none for this interpreter, what takes its place records nothing, so that a program
with regions in it runs all the same.
"""

import os

import kinetoscope

reason = None  # why there is no extension


def _load():
    global reason
    try:
        import kinetoscope._kscope as _kscope

        return _kscope
    except ImportError as failure:
        reason = str(failure)
    _look_into_build()
    try:
        import kinetoscope._kscope as _kscope

        reason = None
        return _kscope
    except ImportError as failure:
        reason = str(failure)
    from kinetoscope import _without_extension

    return _without_extension


def _look_into_build():
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    built = os.environ.get("KSCOPE_EXTENSION_DIR")
    if not built and os.path.exists(os.path.join(root, "meson.build")):
        built = os.path.join(root, "build", "python", "ext")
    if built and built not in kinetoscope.__path__:
        kinetoscope.__path__.append(built)


extension = _load()
