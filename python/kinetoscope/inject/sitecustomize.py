"""Start-up hook of `kscope run`: Python's `site` imports it because its folder leads PYTHONPATH.

Without KSCOPE_RUN it does nothing. With it, it waits for the program to import torch, and begins to
record what the run is to record of all Python (`--record functions,samples`). It takes its own
folder off sys.path and then runs the sitecustomize that it stands in front of, if there is one, so
that the program finds the interpreter as it would be without us. Python started with -S, -I or -E
never comes here, and is simply not recorded.
"""


def _leave_path():
    """Takes this folder off sys.path and returns it."""
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))

    def is_here(entry):
        try:
            return os.path.abspath(entry) == here
        except (OSError, TypeError):  # relative, and the current folder is gone; or no path at all
            return False

    sys.path[:] = [entry for entry in sys.path if not is_here(entry)]
    return here


def _arm():
    """Waits for `import torch`. A failure here leaves the program alone, unrecorded."""
    try:
        import os
        import sys

        here = _leave_path()
        if os.environ.get("KSCOPE_RUN") != "1":
            return
        from importlib.machinery import SourceFileLoader  # importlib.util would cost 5 ms

        name = "kinetoscope._startup"
        package_dir = os.path.dirname(here)
        module = type(sys)(name)
        SourceFileLoader(name, os.path.join(package_dir, "_startup.py")).exec_module(module)
        sys.meta_path.insert(0, module.StartupFinder(package_dir))
        module.begin_recording(os.environ.get("KSCOPE_RECORD", ""))
    except Exception:  # noqa: S110 - the program comes first
        pass


def _run_shadowed():
    """Runs the sitecustomize that ours hides; what it raises is reported by `site`, as always."""
    import sys
    from importlib.machinery import PathFinder

    name = "sitecustomize"
    spec = PathFinder.find_spec(name)
    if spec is None or spec.loader is None or spec.origin == __file__:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


_arm()
_run_shadowed()
