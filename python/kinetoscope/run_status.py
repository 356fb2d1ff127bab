"""What one process of a `kscope run` says about itself: a small file in the run's folder.

`kscope run` learns from it what to wait for and why there is no trace; a report takes from it the
times of steps behind the window, which no trace can hold. It is JSON, a member a line, but its name
does not end in .json, so that nobody takes it for a trace.
The file is replaced as a whole (temporary name, then rename), so it is always complete, however the
process ends.
"""

import os
import sys

SCHEMA = "kinetoscope.run/1"
ARGV_WORDS_MAX = 64
ARGV_CHARS_MAX = 256


class RunStatus:
    """Members of the file by name; `write` is never called in a hot path."""

    def __init__(self, out_dir, rank):
        self.out_dir = out_dir
        self.rank = rank
        self.pid = os.getpid()
        self._members = {}

    @classmethod
    def from_environment(cls):
        return cls(os.environ["KSCOPE_OUT"], rank_of_environment())

    @property
    def stem(self):
        """Start of the name of every file of this process; no two processes share it."""
        return f"rank{self.rank}.pid{self.pid}"

    @property
    def path(self):
        return os.path.join(self.out_dir, f"kscope-run.{self.stem}.status")

    def set(self, **members):
        self._members.update(members)

    def write(self):
        import json

        members = {
            "schema": SCHEMA,
            "pid": self.pid,
            "rank": self.rank,
            "argv": bounded_argv(),
            "python": sys.version.split()[0],
            **self._members,
        }
        lines = (
            f'"{name}": {json.dumps(value, ensure_ascii=False)}' for name, value in members.items()
        )
        temporary = f"{self.path}.tmp"
        # Bytes of argv that are no UTF-8 become \udcXX, which JSON can hold.
        with open(temporary, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("{\n" + ",\n".join(lines) + "\n}\n")
        os.replace(temporary, self.path)


def bounded_argv():
    argv = getattr(sys, "argv", None) or []
    return [str(word)[:ARGV_CHARS_MAX] for word in argv[:ARGV_WORDS_MAX]]


def rank_of_environment():
    """The rank that torchrun, Slurm or MPI gave this process; 0 when nobody did."""
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        value = os.environ.get(name, "")
        if value.isascii() and value.isdigit():  # int() refuses digits such as "²"
            return int(value)
    return 0
