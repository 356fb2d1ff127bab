"""One process of a `kscope tune`: applies a setting, and runs its steps in blocks on command.

It speaks with the tuner through a socket, a line a message (docs/tuning.md, "The protocol"). At the
end of a block the devices are synchronised, the time is told, and the process stands still until it
is told to go on; the tuner stops the whole process group meanwhile, so that workers of loaders get
no further either. So the blocks of two processes can be timed in turn, and neither disturbs the
other. Numbers are told as they are: the tuner judges.
"""

import os
import random
import socket
import sys
from time import perf_counter_ns

from kinetoscope.torch.step_finder import LOADER
from kinetoscope.torch.step_watch import StepWatch, entry_point, is_worker
from kinetoscope.torch.tuned_numbers import RunNumbers
from kinetoscope.torch.tuned_settings import (
    TunedSettings,
    optimizer_can_fuse,
    settings_of_environment,
)

SEED = 20  # any number will do, as long as all processes of a tuning have it
WARM_STEPS = 8
WARM_STEPS_MIN = 4
WARM_NS_MAX = 20_000_000_000  # slow steps: no more than WARM_STEPS_MIN of them
STATUS_NOBODY_LISTENS = 75


class TunedSession(StepWatch):
    """Stands where the Recorder stands in a `kscope run`: the same hooks tell it of steps."""

    wants_outputs = True

    def __init__(self, torch):
        self._torch = torch
        self._path = os.environ["KSCOPE_TUNE"]
        self.mark_name = os.environ.get("KSCOPE_STEP_MARK") or None
        self._is_off = is_worker()
        self._socket = None
        self._lines = None
        self._refused = []
        self._watch(torch, self.mark_name)
        self._step_count = 0
        self._block_steps = 0
        self._block_goal = None  # None: warming up
        self._began_ns = perf_counter_ns()
        self._epochs = []  # steps at whose end the loader had no more
        self._optimizer = None
        self.numbers = RunNumbers(torch)
        settings = settings_of_environment()
        self.settings = TunedSettings(torch, settings, self.refuse)
        compiler = getattr(torch, "compiler", None)
        mark_step = getattr(compiler, "cudagraph_mark_step_begin", None)
        self._mark_step = mark_step if "compile" in settings else None

    def install(self):
        self.settings.install()
        if not self._is_off:
            self._seed()
            self.numbers.install(has_scale=self.settings.model.has_scale)
            self.settings.loaders.watch_random()
        self.modules.begin()

    def refuse(self, name, why):
        """A setting that cannot be applied; told with the first block."""
        line = f"refuse {name} {_one_line(why)}"
        if line not in self._refused:
            self._refused.append(line)

    # ---------------------------------------------------------------- called by the hooks

    @entry_point
    def heard(self, source, key=None, dur_ns=0):
        if source is LOADER and not self._is_off:
            self.settings.loaders.asked(key)
        super().heard(source, key, dur_ns)

    @entry_point
    def epoch_ended(self, key):
        """Of the loader that feeds the steps: one of a validation says nothing about them."""
        is_main = key == self.settings.loaders.main_key()
        if is_main and not self._is_off and len(self._epochs) < 64:
            self._epochs.append(self._step_count)

    @entry_point
    def saw_output(self, output):
        """Of an outermost module, in a program without an optimizer."""
        if not self._is_off and not self._finder.has_optimizer:
            self.numbers.see_output(output)

    def after_fork(self):
        """Children have no steps, and the socket is not theirs."""
        self._is_off = True
        self._socket = None

    @entry_point
    def at_exit(self):
        """Also of a process that had too few steps to be waited for, or none."""
        if self._is_off:
            return
        if self._socket is None:
            self._connect()
        self._say([f"over {self._step_count}"])

    def fail(self, failure):
        self._is_off = True
        try:
            self._say([f"failed {_one_line(repr(failure))}"])
        except Exception:  # noqa: S110 - nobody is there to be told
            pass

    # ---------------------------------------------------------------- blocks

    def _saw_optimizer(self, optimizer):
        self._optimizer = optimizer

    def _restart(self, step_count):
        """What counted as a step until now was none."""
        if self._socket is not None:
            raise RuntimeError("the steps of the script changed while they were timed")
        self._step_count = self._block_steps = 0
        self._began_ns = perf_counter_ns()

    def _end_step(self):
        self._step_count += 1
        self._block_steps += 1
        if self._mark_step is not None:
            self._mark_step()
        if self._block_goal is None:
            self._warm_up()
        elif self._block_steps >= self._block_goal:
            self._close_block([])

    def _warm_up(self):
        is_slow = perf_counter_ns() - self._began_ns > WARM_NS_MAX
        if self._block_steps >= (WARM_STEPS_MIN if is_slow else WARM_STEPS):
            self._connect()
            self._close_block([f"fact {k} {v}" for k, v in self._facts().items()])

    def _close_block(self, lines):
        """Tells of the block and stands still until the next one is wanted."""
        torch = self._torch
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
            lines.append(f"memory {torch.cuda.max_memory_allocated()}")
        dur_ns = perf_counter_ns() - self._began_ns
        lines += self._refused
        self._refused = []
        lines += [f"{kind} {number}" for kind, number in self.numbers.drain()]
        lines += [f"epoch {step}" for step in self._epochs]
        self._epochs = []
        self._say([*lines, f"block {self._block_steps} {dur_ns}"])
        self._block_goal = self._wait_for_go()
        self._block_steps = 0
        self._began_ns = perf_counter_ns()

    def _wait_for_go(self):
        words = self._lines.readline().split()
        if len(words) != 2 or words[0] != "go":
            os._exit(STATUS_NOBODY_LISTENS)  # the tuner has gone, and this run is of no other use
        return int(words[1])

    # ---------------------------------------------------------------- the socket

    def _connect(self):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(self._path)
        self._lines = self._socket.makefile("r", encoding="ascii", newline="\n")
        self._say([f"hello {os.getpid()}"])

    def _say(self, lines):
        self._socket.sendall("".join(f"{line}\n" for line in lines).encode("ascii", "replace"))

    # ---------------------------------------------------------------- facts

    def _facts(self):
        torch, settings = self._torch, self.settings
        settings.loaders.refuse_untaken()
        facts = {
            "torch": torch.__version__,
            "source": self._finder.source_name,
            "cores": len(os.sched_getaffinity(0)),
            "threads": torch.get_num_threads(),
            "ranks": _world_size(torch),
            "tf32": _asked(lambda: torch.get_float32_matmul_precision() != "highest", 0),
            "benchmark": _asked(lambda: torch.backends.cudnn.benchmark, 0),
            "flash": _asked(torch.backends.cuda.flash_sdp_enabled, 1),
            "efficient": _asked(torch.backends.cuda.mem_efficient_sdp_enabled, 1),
            **settings.model.facts(),
            **settings.loaders.facts(),
            **self._optimizer_facts(),
        }
        entry = sys.modules.get("kinetoscope.tune.entry")
        knobs = entry.knobs() if entry is not None and hasattr(entry, "knobs") else {}
        for name, (choices, exact) in knobs.items():
            facts[f"entry.{name}"] = f"{len(choices)} {int(exact)} " + " ".join(
                _one_line(repr(choice)).replace(" ", "") for choice in choices
            )
        return facts

    def _optimizer_facts(self):
        optimizer = self._optimizer
        if optimizer is None:
            return {"optimizer": "none"}
        optimizer = getattr(optimizer, "optimizer", optimizer)  # what Accelerate wraps
        groups = optimizer.param_groups
        return {
            "optimizer": type(optimizer).__name__,
            "fusable": int(optimizer_can_fuse(self._torch, optimizer)),
            "fused": int(any(bool(group.get("fused")) for group in groups)),
            "foreach": int(any(group.get("foreach") is False for group in groups)),
            "tensors": sum(len(group["params"]) for group in groups),
        }

    def _seed(self):
        """A script that seeds itself does so after us."""
        random.seed(SEED)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(SEED)
        self._torch.manual_seed(SEED)


def _asked(question, otherwise):
    """A switch of torch as 0 or 1; some raise when a script has set them in the old way and in the
    new one, and old releases lack some."""
    try:
        return int(question())
    except (AttributeError, RuntimeError):
        return otherwise


def _one_line(text):
    return " ".join(str(text).split())[:300]


def _world_size(torch):
    distributed = getattr(torch, "distributed", None)
    if distributed and distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    return 1
