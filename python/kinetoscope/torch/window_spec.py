"""What to record, in the words of `kscope run`: KSCOPE_STEPS and its companions."""

import copy
import os
import sys

AUTO_WARMUP = 1
AUTO_ACTIVE = 6
AUTO_WAIT_MAX = 200  # steps that never agree are recorded all the same
# What calls of a model have in common, requests that come in bursts, shows over many of them.
AUTO_CALLS_NS = 200_000_000
AUTO_CALLS_MAX = 64
SECONDS_DEFAULT = 60
BYTES_DEFAULT = 1 << 30
STACKS_TRIES_DEFAULT = 3


def _sees_calls():
    """Before Python 3.12 one profiler sees calls. That of functions would lose its running ones."""
    words = os.environ.get("KSCOPE_RECORD", "").split(",")
    return sys.version_info < (3, 12) and "functions" in words


class WindowSpec:
    """`wait` steps run free (None: until they agree), `warmup` steps are recorded and thrown away,
    `active` are kept; so `repeat` times, 0 for ever. A window ends early, but with one step at
    least, after `seconds_max` or when its trace would exceed `bytes_max`. Behind it a step with
    stacks is recorded, up to `stacks_tries` times while its thread waits for cores."""

    def __init__(self, wait, warmup, active, repeat=1):
        self.wait = wait
        self.warmup = warmup
        self.active = active
        self.repeat = repeat
        self.seconds_max = SECONDS_DEFAULT
        self.bytes_max = BYTES_DEFAULT
        self.has_stacks = True
        self.stacks_tries = STACKS_TRIES_DEFAULT

    @classmethod
    def parse(cls, text):
        if text == "auto":
            return cls(None, AUTO_WARMUP, AUTO_ACTIVE)
        wait, warmup, active, *repeat = (int(part) for part in text.split(":"))
        # A window can only open where a step ends.
        return cls(max(wait, 1), max(warmup, 0), max(active, 1), max(repeat[0], 0) if repeat else 1)

    @classmethod
    def from_environment(cls):
        spec = cls.parse(os.environ.get("KSCOPE_STEPS") or "auto")
        spec.seconds_max = float(os.environ.get("KSCOPE_WINDOW_SECONDS") or SECONDS_DEFAULT)
        spec.bytes_max = int(os.environ.get("KSCOPE_WINDOW_BYTES") or BYTES_DEFAULT)
        spec.stacks_tries = int(os.environ.get("KSCOPE_STACKS") or STACKS_TRIES_DEFAULT)
        spec.has_stacks = spec.stacks_tries > 0 and not _sees_calls()
        return spec

    def for_calls(self, call_ns):
        """The same for a program whose steps are calls of a model, which last `call_ns` each."""
        if self.wait is not None:
            return self
        spec = copy.copy(self)
        fitting = min(AUTO_CALLS_NS // max(call_ns, 1), AUTO_CALLS_MAX)
        spec.active = max(spec.active, fitting)
        return spec

    @property
    def step_count(self):
        """Steps that a program must make for one window; with a wait of its own, at most."""
        wait = AUTO_WAIT_MAX if self.wait is None else self.wait
        return wait + self.warmup + self.active

    def is_wait_over(self, waited_count, times):
        if self.wait is None:
            return waited_count >= AUTO_WAIT_MAX or times.agree()
        return waited_count >= self.wait

    def as_members(self):
        return {
            "wait": "auto" if self.wait is None else self.wait,
            "warmup": self.warmup,
            "active": self.active,
            "repeat": self.repeat,
            "seconds_max": self.seconds_max,
            "bytes_max": self.bytes_max,
            "stacks": self.has_stacks,
        }
