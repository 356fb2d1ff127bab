"""Records of what debugging sees: the logger `kinetoscope.debug`, a file of JSON lines, a ring.

A record's `facts` are fit for JSON; numbers that are not finite are the words nan, inf and -inf.
"""

import collections
import json
import logging
import logging.handlers
import math
import os

from kinetoscope.run_status import rank_of_environment

LOG = logging.getLogger("kinetoscope.debug")
FILE_BYTES_MAX = 10_000_000
FILES_KEPT = 3
RING_RECORDS = 512


class RecordLog:
    """`folder`: debug.rank<R>.pid<P>.jsonl goes there, rotated; None: no file. OSError."""

    def __init__(self, folder=None):
        self.rank = rank_of_environment() or 0
        self.ring = collections.deque(maxlen=RING_RECORDS)
        self._folder = None if folder is None else os.fspath(folder)
        self._file = None if folder is None else self._open_file()
        self._level_before = LOG.level
        if LOG.level == logging.NOTSET:
            LOG.setLevel(logging.DEBUG)

    def _open_file(self):
        os.makedirs(self._folder, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            self._path("debug"), maxBytes=FILE_BYTES_MAX, backupCount=FILES_KEPT, encoding="utf-8"
        )
        handler.setFormatter(_JsonLines())
        LOG.addHandler(handler)
        return handler

    def _path(self, what):
        return os.path.join(self._folder, f"{what}.rank{self.rank}.pid{os.getpid()}.jsonl")

    def write(self, kind, facts, text=None, *, step=None, level=logging.DEBUG):
        """One record; `text` is for people, else it is made of the facts."""
        if not LOG.isEnabledFor(level):
            return
        facts = plain(facts)
        words = text or " ".join(f"{key}={_short(value)}" for key, value in facts.items())
        extra = {"kind": kind, "facts": facts, "rank": self.rank, "step": step}
        self.ring.append({"kind": kind, "level": level, "step": step, "text": words, **facts})
        LOG.log(level, "%s %s", kind, words, extra=extra)

    def dump(self, reason):
        """Writes the ring to a file, where there is a folder. Returns its path."""
        if self._folder is None or not self.ring:
            return None
        path = self._path("last_steps")
        with open(path, "w", encoding="utf-8") as file:
            for record in [{"kind": "dump", "reason": reason, "rank": self.rank}, *self.ring]:
                file.write(json.dumps(record, default=str) + "\n")
        return path

    def close(self):
        """Takes the file away from the logger, and puts its level back."""
        if self._file is not None:
            LOG.removeHandler(self._file)
            self._file.close()
            self._file = None
        LOG.setLevel(self._level_before)


class _JsonLines(logging.Formatter):
    def format(self, record):
        row = {
            "time": record.created,
            "level": record.levelname,
            "rank": getattr(record, "rank", None),
            "step": getattr(record, "step", None),
            "kind": getattr(record, "kind", None),
            "text": record.getMessage(),
            "facts": plain(getattr(record, "facts", {})),
        }
        return json.dumps(row, default=str)


def plain(value):
    """The same in types of JSON."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return str(value)


def _short(value):
    return f"{value:.6g}" if isinstance(value, float) else value
