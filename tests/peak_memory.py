"""The peak memory of a program that a test starts. What a process is told of its child counts what
the child shared with it before it became another program: a test run of 700 MB would measure
itself. So a small Python stands between the two.

    peak_memory.py FILE COMMAND...    runs the command, writes its peak to FILE, ends as it ended
"""

import pathlib
import resource
import subprocess
import sys


def command(words, file):
    """What to start in place of `words`; streams and exit status are those of the program."""
    return [sys.executable, "-I", "-S", __file__, str(file), *map(str, words)]


def peak_bytes(file):
    return int(pathlib.Path(file).read_text()) * 1024  # Linux counts in KiB


def main():
    file, *words = sys.argv[1:]
    status = subprocess.run(words, check=False).returncode
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    pathlib.Path(file).write_text(str(peak))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
