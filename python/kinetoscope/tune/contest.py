"""Contest: settings of one piece of work, each checked against the model as it is, then timed in
turn. What is wrong, or does not run, is out before anything is timed."""

import contextlib
import importlib
import math
from time import perf_counter_ns

import torch

from kinetoscope._engine import Trial
from kinetoscope.torch.state_guard import kept_random
from kinetoscope.tune import agreement, stopwatch
from kinetoscope.tune.result import SweepResult, add_times, choose, empty_row
from kinetoscope.tune.setting import Setting
from kinetoscope.tune.work import MODES, SEED, Runner, precisions_of

LOSS_STEPS = 10
ROUNDS_ALONE = 9  # of one that nothing is compared with
ROUNDS_LEAST, ROUNDS_ENOUGH = 4, 21  # before a trial says anything, and with a slow start
OVERTIME = 4
LOSSES_NS = 1_000_000_000  # for such a training
RECOMPILES_MAX = 64
NOISE_MAX = 0.25  # relative: four times of it is fine, and of more anything would be
HOPELESS_NS, HOPELESS_FACTOR = 200_000_000, 5
OTHER_SEED = SEED + 1


class Contest:
    """For use in a `with` block; after it random states and torch's switches are as before.

    tolerance: relative, in place of those of agreement.TOLERANCES; None: those. loss_steps: length
    of the trainings that are compared.
    """

    def __init__(self, work, tolerance=None, loss_steps=LOSS_STEPS):
        self.work = work
        self.rows = []
        self._entries = []  # (runner, row) of those that may be timed
        self._tolerance = tolerance
        self._loss_steps = loss_steps
        self._stack = contextlib.ExitStack()
        self._compiles = False
        self._right = None

    def __enter__(self):
        self._stack.enter_context(stopwatch.quick_collections())
        self._stack.enter_context(kept_random())
        try:
            self._learn()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *failure):
        for runner, _ in self._entries:
            runner.close()
        self._entries = []
        stopwatch.clean(self.work.device)
        self._stack.close()

    # ---------------------------------------------------------------- what is right

    def _learn(self):
        """What the model gives as it is, and how much that differs from itself."""
        self._reference = Runner(self.work)
        self._formats = precisions_of(self.work.model, self._reference.infer())
        for self.work.check_mode in MODES:
            self._right = self._reference.outcome(self.work.check_mode)
            again = self._reference.outcome(self.work.check_mode)
            self._noise = _distance(self._right, again)
            other = self._reference.outcome(self.work.check_mode, OTHER_SEED)
            distance = _distance(self._right, other)
            self._noise = self._noise or 0.0
            if distance is not None and distance <= 4 * self._noise + 1e-6:
                break
        rounded = self._reference.rounded_outcome(self.work.check_mode)
        self._noise = max(self._noise, _distance(self._right, rounded) or 0.0)
        self._losses, self._spread = self._learn_losses()

    def _learn_losses(self):
        """(losses of a short training, how far they are from those with other random numbers)"""
        if not self.work.is_training or self._loss_steps < 1:
            return None, 0.0
        count = self._affordable_steps()
        losses = self._reference.losses(count)
        others = self._reference.losses(count, OTHER_SEED)
        gaps = (abs(a - b) for a, b in zip(losses, others, strict=True))
        return losses, max((gap for gap in gaps if math.isfinite(gap)), default=0.0)

    @property
    def right(self):
        """The Outcome of the model as it is."""
        return self._right

    def notes(self):
        """What of the model as it is could not be compared with anything."""
        notes = [
            f"{name} of the model as it is has NaN in places, which are not compared"
            for name in agreement.nan_parts(self._right)
        ]
        count = agreement.finite_count(self._losses or ())
        if self._losses and count < len(self._losses):
            where = f"losses of the model as it is are not finite from step {count + 1} on"
            notes.append(f"{where}: only those before it are compared")
        return notes

    def _affordable_steps(self):
        """Slow steps are compared over fewer of them, three at least."""
        began_ns = perf_counter_ns()
        self._reference.losses(1)
        once_ns = max(perf_counter_ns() - began_ns, 1)
        return max(min(self._loss_steps, LOSSES_NS // once_ns), min(self._loss_steps, 3))

    # ---------------------------------------------------------------- who takes part

    def admit(self, setting, config=None, label=None, **more):
        """Tries a setting; its row, with a reason when it is out. `more`: columns of the row."""
        config = setting.changes() if config is None else config
        row = empty_row(label or _label(setting), config, "baseline", **more)
        row["code"] = setting.code(self.work.device.type)
        self.rows.append(row)
        stopwatch.clean(self.work.device)
        if setting.compile is not None and not self._compiles:
            self._compiles = True
            self._stack.enter_context(_many_compilations())
        runner = None
        try:
            runner = Runner(self.work, setting)
            self._check(runner, row)
            if row["reason"] is None:
                self._weigh(runner, row)
        except Exception as failure:  # whatever torch says of a setting is its reason
            row["verdict"], row["reason"] = "failed", reason_of(failure)
        if row["reason"] is None:
            self._entries.append((runner, row))
        elif runner is not None:
            runner.close()
        return row

    def reason_against(self, model, setting):
        """None, or why a model that was made elsewhere, in this setting, is not right."""
        tolerance = self._tolerance_of(setting)
        try:
            outcome = Runner.of_model(self.work, model).outcome(self.work.check_mode)
        except Exception as failure:
            return reason_of(failure)
        return agreement.compare_outcomes(self._right, outcome, tolerance, self._noise).reason

    def leave_out(self, label, config, reason):
        """A row for what cannot be tried here."""
        row = empty_row(label, config, "failed", reason, code=[])
        self.rows.append(row)
        return row

    def entries(self):
        """(runner, row) of those that take part."""
        return list(self._entries)

    def runner_of(self, row):
        """That of a row that takes part."""
        return next(runner for runner, of in self._entries if of is row)

    def dismiss(self, row):
        """This one takes part no more; what it held is free."""
        for entry in [entry for entry in self._entries if entry[1] is row]:
            self._entries.remove(entry)
            entry[0].close()

    def _check(self, runner, row):
        tolerance = self._tolerance_of(runner.setting)
        outcome = runner.outcome(self.work.check_mode)
        told = agreement.compare_outcomes(self._right, outcome, tolerance, self._noise)
        row["error"], reason = told.error, told.reason
        if self._noise > NOISE_MAX:
            reason = f"the model as it is differs from itself by {self._noise:.2g} of its results"
        if told.is_unknown or self._noise > NOISE_MAX:
            # Of the model as it is there is nothing to prove.
            is_itself = runner.setting == AS_IT_IS
            row["verdict"] = "baseline" if is_itself else "not_compared"
            row["reason"] = None if is_itself else reason
            return
        if told.is_overflow:
            name = runner.first_overflow(self.work.check_mode)
            reason += f", first those of the module {name}" if name else ""
        if reason is None and self._is_hopeless(runner):
            row["verdict"], row["reason"] = "left_out", "its step is many times as long"
            return
        if reason is None and self._losses is not None:
            losses = runner.losses(len(self._losses))
            reason = agreement.compare_losses(self._losses, losses, tolerance, self._spread)
        if reason is not None:
            row["verdict"], row["reason"] = "rejected", reason

    def _is_hopeless(self, runner):
        """So slow that nobody need wait for it: a trial would take minutes to say so."""
        device = self.work.device
        with runner.stepping():
            ns = stopwatch.time_block(runner.step, 1, device)
            if ns < HOPELESS_NS:
                return False
            ns = min(ns, stopwatch.time_block(runner.step, 1, device))  # compiled by now
        with self._reference.stepping():
            right_ns = stopwatch.time_block(self._reference.step, 1, device)
        return ns >= HOPELESS_NS and ns > HOPELESS_FACTOR * right_ns

    def _tolerance_of(self, setting):
        """A model that has half precision in it by itself is not held to more."""
        names = (setting.tolerance_name, *self._formats)
        return agreement.tolerance_of(*names, given=self._tolerance)

    def _weigh(self, runner, row):
        """Peak memory of a step, behind one in which caches and workspaces are made."""
        with runner.stepping():
            runner.step()
            runner.model.zero_grad(set_to_none=True)
            rise = stopwatch.peak_rise(runner.step, self.work.device)
        if rise is not None:
            row["peak_bytes"] = stopwatch.bytes_of(runner.model) + rise

    # ---------------------------------------------------------------- who is faster

    def race(self, seconds, noise=0.02, among=None):
        """Times those that take part, or the rows `among` them, the first one being the baseline;
        fills in their rows. Returns the row to use, None when nobody is left."""
        rows = [row for _, row in self.entries()] if among is None else among
        runners = [self.runner_of(row) for row in rows]
        if not runners:
            return None
        trial = Trial(len(runners), race=True, tolerance=noise, rounds=_rounds(len(runners)))
        calls = stopwatch.alike([self._calls(runner) for runner in runners])
        for number in paced(trial, seconds):
            try:
                trial.add(number, self._time(runners[number], calls[number]))
            except Exception as failure:
                trial.drop(number)
                rows[number]["verdict"], rows[number]["reason"] = "failed", reason_of(failure)
        return self._judge(rows, trial, noise)

    def _judge(self, rows, trial, noise):
        """The best row; what an earlier trial said of the first one stays."""
        timed = [(number, row) for number, row in enumerate(rows) if row["reason"] is None]
        told = [dict(row) for _, row in timed]
        for (number, row), of in zip(timed, told, strict=True):
            add_times(of, trial, number, 0)
            if number > 0 or row["time"] is None:
                row.update(of)
        best = choose(told, trial, [number for number, _ in timed], noise)
        return next((row for (_, row), of in zip(timed, told, strict=True) if of is best), None)

    def _calls(self, runner):
        with runner.stepping():
            return stopwatch.calls_for_a_block(runner.step, self.work.device)

    def _time(self, runner, calls):
        """One block, behind a step that brings caches back from the variant before; a step that is
        long in itself hardly notices."""
        with runner.stepping():
            if calls > 1:
                runner.step()
            return stopwatch.time_least(runner.step, calls, self.work.device)

    def timer(self, runner):
        """A function that gives the ns of one step."""
        calls = self._calls(runner)
        return lambda: self._time(runner, calls)

    def result(self, kind, best, notes=()):
        """A SweepResult of all rows."""
        notes = [*notes, *self.notes()]
        return SweepResult(kind, self.rows, best, best["code"] if best else (), notes)


def run_sweep(kind, work, settings, seconds, tolerance, noise=0.02, notes=()):
    """A whole sweep: [(setting, config, label)], the baseline first."""
    with Contest(work, tolerance) as contest:
        for setting, config, label in settings:
            contest.admit(setting, config, label)
        best = contest.race(seconds, noise)
        return contest.result(kind, best, notes)


def _rounds(variants):
    return ROUNDS_ALONE if variants == 1 else 0


def paced(trial, seconds, overtime=OVERTIME):
    """The variants that a trial wants timed, until it has ended or `seconds` are over: then it goes
    on to the round in which it can say something, for `overtime` times as long at most."""
    began_ns, counts = perf_counter_ns(), {}
    for variant in trial:
        done = counts.get(variant, 0)
        if done == max(counts.values(), default=0):  # a new round
            elapsed_s = (perf_counter_ns() - began_ns) / 1e9
            limit_s = seconds * (1 if _is_told(trial, counts, done) else overtime)
            if elapsed_s > limit_s:
                return
        counts[variant] = done + 1
        yield variant


def _is_told(trial, counts, done):
    """Whether a trial knows something, or would not soon. Rounds in which a variant was getting
    warm do not count, and one that does not run has none: there is an end to waiting."""
    if done < ROUNDS_LEAST or done >= ROUNDS_ENOUGH:
        return done >= ROUNDS_ENOUGH
    told = [trial.compare(0, number) for number in counts if number != 0]
    if all(one["verdict"] != "cannot_tell" for one in told):
        return True
    return done >= ROUNDS_ALONE and all(one["low"] is not None for one in told)


def _label(setting):
    changes = setting.changes()
    words = [f"{k}={_word(v)}" if v is not True else k for k, v in changes.items()]
    return ", ".join(words) or "as it is"


def _word(value):
    return f"{len(value)} modules" if isinstance(value, tuple) else str(value)


def reason_of(failure):
    """One line about an exception."""
    if isinstance(failure, torch.cuda.OutOfMemoryError):
        return "out of memory of the GPU"
    first = str(failure).strip().splitlines()
    text = f"{type(failure).__name__}: {first[0] if first else ''}".rstrip(": ")
    return text if len(text) <= 200 else text[:197] + "..."


def _distance(right, other):
    """None where they cannot be compared."""
    told = agreement.compare_outcomes(right, other, agreement.Tolerance(1e9, 1e9, 1e9))
    errors = [e for e in (told.error, told.gradient_error) if e is not None]
    return max(errors, default=None)


@contextlib.contextmanager
def _many_compilations():
    """A model that is compiled several ways is compiled as often, and not left as it is."""
    config = _dynamo_config()
    names = [n for n in ("recompile_limit", "cache_size_limit") if hasattr(config, n)]
    if not names:
        yield
        return
    with config.patch({names[0]: max(getattr(config, names[0]), RECOMPILES_MAX)}):
        yield


def _dynamo_config():
    """None where torch has no compiler."""
    with contextlib.suppress(ImportError):
        return importlib.import_module("torch._dynamo").config
    return None


AS_IT_IS = Setting()
