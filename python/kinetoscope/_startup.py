"""Waits until the program itself has imported torch, then installs the hooks.

This file is loaded by inject/sitecustomize.py in every Python process of a `kscope run`, so loading
it imports nothing but `sys`; what more it needs is imported when the program imports torch. It
touches no module but `torch` and `kinetoscope`. Whatever fails here leaves the program running,
unrecorded.
"""

import sys


def begin_recording(words):
    """Starts what `kscope run --record` is to record of programs that do not know us. Regions are
    of programs that import kinetoscope, which then begins by itself."""
    if words and words != "regions":
        import kinetoscope  # noqa: F401 - StartupFinder finds ours, which begins when it is loaded


class StartupFinder:
    """First entry of sys.meta_path until torch is there; then it takes itself away.

    `torch`: found by the other finders; its loader gets an epilogue, and is put back as it was.
    `kinetoscope`: found in `package_dir`, so that the hooks and the program share one package and
    it always fits the `kscope` that started the run.
    """

    def __init__(self, package_dir):
        self._package_dir = package_dir

    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            return self._find_torch(path, target)
        if name == "kinetoscope":
            from importlib.util import spec_from_file_location

            return spec_from_file_location(
                name,
                self._package_dir + "/__init__.py",
                submodule_search_locations=[self._package_dir],
            )
        return None

    def _find_torch(self, path, target):
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec("torch", path, target)
            if spec is not None:
                self._add_epilogue(spec.loader)
                return spec
        return None

    def _add_epilogue(self, loader):
        """Makes `loader` call us once after it has executed the module."""
        exec_module = getattr(loader, "exec_module", None)
        if exec_module is None:
            return

        def exec_then_install(module):
            try:
                del loader.exec_module  # the instance attribute below; the class's one is back
            except AttributeError:
                pass
            exec_module(module)
            self._install(module)

        try:
            loader.exec_module = exec_then_install
        except AttributeError:
            pass  # a loader that cannot be changed: this program is not recorded

    def _install(self, torch):
        try:
            from kinetoscope.torch.run_hook import install

            install(torch)
        except Exception as failure:
            self._leave_reason(failure)
        finally:
            if self in sys.meta_path:
                sys.meta_path.remove(self)

    @staticmethod
    def _leave_reason(failure):
        try:
            from kinetoscope.run_status import RunStatus

            status = RunStatus.from_environment()
            status.set(state="off", explanation=f"The hooks could not be installed: {failure!r}.")
            status.write()
        except Exception:  # noqa: S110 - the program comes first
            pass
