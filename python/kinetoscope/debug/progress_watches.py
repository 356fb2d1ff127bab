"""What is written down of a training: memory, learning rates, validation, early stopping."""

import os
from time import perf_counter_ns

import torch

JUMP_FACTOR = 10  # above the largest learning rate until then, in one step
_PAGE = os.sysconf("SC_PAGE_SIZE")


class MemoryUse:
    """Memory after each step. Nothing here waits for a GPU."""

    def __init__(self, session):
        self._session = session
        self._before = None
        # One that stays open belongs to this process, also after a fork.
        self._statm = open("/proc/self/statm", "rb", buffering=0)  # noqa: SIM115

    def finish(self):
        self._statm.close()

    def step_ended(self, optimizer, scaler):
        rss = int(os.pread(self._statm.fileno(), 128, 0).split()[1]) * _PAGE
        grown = None if self._before is None else rss - self._before
        self._before = rss
        facts = {"rss_bytes": rss, "rss_bytes_grown": grown}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            facts["gpu_bytes"] = torch.cuda.memory_allocated()
            facts["gpu_bytes_max"] = torch.cuda.max_memory_allocated()
            facts["gpu_bytes_reserved"] = torch.cuda.memory_reserved()
        self._session.write("memory_usage", facts)


class LearningRate:
    """Learning rates when they change, and what the schedules given to enable_debugging hold."""

    def __init__(self, session, schedules=()):
        self._session = session
        self._schedules = schedules
        self._rates = None
        self._largest = None

    def step_begins(self, optimizer, scaler):
        rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        if not rates or rates == self._rates:
            return
        self._warn(rates)
        facts = {"learning_rates": rates, "before": self._rates}
        facts["schedules"] = [_numbers_of(schedule) for schedule in self._schedules]
        self._session.write("lr_scheduling", facts)
        self._rates = rates
        self._largest = max(rates) if self._largest is None else max(self._largest, *rates)

    def _warn(self, rates):
        largest = self._largest
        if not largest or max(rates) <= JUMP_FACTOR * largest:
            return
        facts = {"cause": "learning_rate", "rate": max(rates), "largest_before": largest}
        text = f"the learning rate jumps to {max(rates):.4g}, until then {largest:.4g} at most"
        self._session.incident("lr_scheduling", "jump", facts, text)


class Validation:
    """Forwards in evaluation mode between two steps are one validation."""

    def __init__(self, session):
        self._session = session
        self._count = 0
        self._began_ns = 0

    def call_began(self, module, call):
        if call.is_training or call.has_grad:
            self.finish()
            return
        if self._count == 0:
            self._began_ns = perf_counter_ns()
        self._count += 1

    def finish(self):
        count, self._count = self._count, 0
        if count:
            facts = {"batches": count, "seconds": (perf_counter_ns() - self._began_ns) / 1e9}
            self._session.write("validation", facts)


class EarlyStopping:
    """What an object that decides when to stop holds, whenever that changes."""

    def __init__(self, session, decider=None):
        self._session = session
        self._decider = decider
        self._before = None

    def step_ended(self, optimizer, scaler):
        if self._decider is None:
            return
        now = _numbers_of(self._decider)
        if now != self._before:
            self._before = now
            self._session.write("early_stopping", now)

    def finish(self):
        self.step_ended(None, None)


def _numbers_of(thing):
    values = {key: v for key, v in vars(thing).items() if isinstance(v, bool | int | float)}
    return {"class": type(thing).__name__, **values}
