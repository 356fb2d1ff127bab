"""What a notebook gets by `%load_ext kinetoscope`: a magic for lines, and one for cells."""

import shlex
import tempfile

import kinetoscope

_USAGE = "usage: %%kscope [--out FOLDER] [--schedule WAIT:WARMUP:ACTIVE[:REPEAT]]"


def load(shell):
    """Registers `%kscope` and `%%kscope` with an IPython shell."""
    magics = _Magics(shell)
    shell.register_magic_function(magics.open, "line", "kscope")
    shell.register_magic_function(magics.record, "cell", "kscope")


def unload(shell):
    """Takes both away again."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("kscope", None)


class _Magics:
    def __init__(self, shell):
        self._shell = shell

    def open(self, line):
        """`%kscope PATH...`: the report of traces, recordings, or the folder of a run."""
        return kinetoscope.open(shlex.split(line) or ["."])

    def record(self, line, cell):
        """`%%kscope [--out FOLDER] [--schedule W:U:A]`: runs the cell under torch.profiler, and
        gives its report. `kinetoscope.step()` in the cell ends a step. Without a folder no trace
        is kept. An exception of the cell shows as ever, and what was recorded until then is
        reported."""
        options = _parse(line)
        if "out" in options:
            return self._record(cell, options.pop("out"), options)
        with tempfile.TemporaryDirectory(prefix="kinetoscope-") as folder:
            return self._record(cell, folder, options)

    def _record(self, cell, folder, options):
        before = kinetoscope._step
        with kinetoscope.profile(folder, **options) as profile:
            kinetoscope._step = profile.step
            try:
                self._run(cell)
            finally:
                kinetoscope._step = before
        return kinetoscope.open(folder)

    def _run(self, cell):
        """As a cell of its own, inside of the one that the magic is in, whose result is ours."""
        outer = self._shell.displayhook.exec_result
        try:
            self._shell.run_cell(cell)
        finally:
            self._shell.displayhook.exec_result = outer


def _parse(line):
    words = shlex.split(line)
    options = {}
    while words:
        name = words.pop(0)
        if name not in ("--out", "--schedule") or not words:
            raise ValueError(_USAGE)
        options[name[2:]] = words.pop(0)
    return options
