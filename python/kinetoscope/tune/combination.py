"""tune_model: changes tried one after the other, each on top of what has helped so far."""

import math

from torch.utils.data import DataLoader

from kinetoscope._engine import Trial
from kinetoscope.torch.state_guard import kept_random
from kinetoscope.tune import stages, stopwatch
from kinetoscope.tune.checkpoint_sweep import SAVED_SHARE_MIN
from kinetoscope.tune.contest import AS_IT_IS, ROUNDS_ALONE, Contest, paced
from kinetoscope.tune.loader_candidates import common_options, own_config
from kinetoscope.tune.loader_sweep import sweep_dataloader
from kinetoscope.tune.loader_timing import EmptyEpoch, LoaderVariant, Span
from kinetoscope.tune.model_copy import Refusal
from kinetoscope.tune.result import SweepResult, add_times, empty_row
from kinetoscope.tune.work import Work, as_batch, batches_of

SECONDS = 60.0
BATCHES = 8
LOADING_SHARE_MIN = 0.05
SECOND_LOOK_MAX = 1.5  # of the time of what was kept: who took longer is not looked at again


class TuneResult(SweepResult):
    """What tune_model gives: as a SweepResult, and

    setting: the Setting that all changes make together; best: {change: value} of it, with
    `dataloader` where that is to be another one. baseline, optimized: rows of the last trial, of
    the program as it is and with all changes. improvements: {time_improvement_percent,
    memory_improvement_percent, speedup_factor, std (seconds), interval {low, high} of the speedup,
    verdict: faster, slower or cannot_tell}. dataloader: the SweepResult of the loader, or None.
    The `speedup` of a row is over what had been kept before it.
    """

    def __init__(self, rows, setting, final, loader_result, code, notes=()):
        self.setting = setting
        self.baseline, self.optimized, self.improvements = final
        self.dataloader = loader_result
        super().__init__("model", rows, self.optimized, code, notes)

    @property
    def applied(self):
        """Names of the changes that were kept."""
        names = [stages.name_of(field) for field in self.setting.changes()]
        return [*names, "dataloader"] if "dataloader" in self.best else names

    def table(self):
        """As text; the loader's settings have a table of their own."""
        tables = [super().table()]
        if self.dataloader is not None:
            tables.append(self.dataloader.table())
        return "\n\n".join(tables)

    def to_dict(self):
        more = {
            "improvements": self.improvements,
            "applied": self.applied,
            "dataloader": None if self.dataloader is None else self.dataloader.to_dict(),
        }
        return {**super().to_dict(), **more}


def tune_model(
    model,
    data,
    *,
    target=None,
    loss_fn=None,
    optimizer=None,
    training=None,
    report=None,
    what=None,
    seconds=SECONDS,
    tolerance=None,
    batches=BATCHES,
):
    """Looks for the combination of changes that makes a model fastest with the same results.

    data: a DataLoader or a list of batches, of which the first `batches` are used, or one batch as
    sweep_precision takes it. what: names of the changes to try (stages.NAMES); without them all
    that mean something for the model, but for checkpointing, which saves memory and costs time.
    report: a Report or a list of findings: what it ranks first is tried first. seconds: for all
    the timing.

    Each change is tried on top of those that were kept, and kept when it is faster beyond noise and
    its results are right (checkpointing: when it saves 2 % of the peak). Settings of a DataLoader
    are tried, too, when a step waits for it. At the end the program as it is and with all changes
    are timed against each other once more. Nothing is changed in the program: `code` has the lines
    that do it. Returns a TuneResult; raises what sweep_precision raises. RuntimeError: the model as
    it is does not even agree with itself.
    """
    loader = data if isinstance(data, DataLoader) else None
    with kept_random(loader):
        return tune_batches(
            model,
            _batches(data, target, batches),
            loss_fn=loss_fn,
            optimizer=optimizer,
            training=training,
            report=report,
            what=what,
            loader=loader,
            seconds=seconds,
            tolerance=tolerance,
        )


def tune_batches(
    model,
    batches,
    *,
    loss_fn=None,
    optimizer=None,
    training=None,
    report=None,
    what=None,
    precisions=None,
    loader=None,
    seconds=SECONDS,
    tolerance=None,
):
    """tune_model with batches as Work takes them. precisions: of those only these are tried."""
    work = Work(model, batches, loss_fn, optimizer, training)
    names = stages.order(stages.meant_for(work, optimizer, loader, what), report)
    # The last trial decides, and loaders take long to get going: two shares for each.
    share = seconds / (len(names) + 4)
    with Contest(work, tolerance) as contest:
        search = _Search(contest, optimizer, share, precisions)
        for name in names:
            if name != "dataloader":
                search.try_stage(name)
        search.look_again("precision")
        with kept_random(loader):
            return search.finish(loader if "dataloader" in names else None, loader)


def _batches(data, target, count):
    is_loader = isinstance(data, DataLoader) or (isinstance(data, list) and target is None)
    if not is_loader:
        return [as_batch(data, target)]
    found = batches_of(data, count)
    if not found:
        raise ValueError("the data loader is empty: there is nothing to try a model with")
    return found


class Unsteady(Refusal, RuntimeError):
    """The model as it is gives other results each time, in a way that no mode or seed ends."""


class _Search:
    def __init__(self, contest, optimizer, share, precisions):
        self._contest = contest
        self._precisions = precisions
        self._optimizer = optimizer
        self._share = share
        self.setting = AS_IT_IS
        self._first = contest.admit(AS_IT_IS, {}, "as it is")
        self._current = self._first
        self._seconds = {}  # stage -> the change that came second in it, and what was kept
        self._notes = []
        if self._first["reason"] is not None:
            raise Unsteady(f"nothing is compared with the model as it is: {self._first['reason']}")

    def try_stage(self, name):
        """Keeps the best of a stage, if it is one."""
        if self._current["reason"] is not None:
            return  # it failed while it was timed: there is nothing to compare with
        self._try(name, self._settings(name))

    def look_again(self, name):
        """Tries what came second in a stage on top of what was kept behind it: casts, for one, cost
        less once they are compiled."""
        change, kept = self._seconds.pop(name, (None, self.setting))
        if self.setting != kept and self._current["reason"] is None:
            self._try(name, [self.setting.with_(**change)])

    def _try(self, name, settings):
        rows = []
        for setting in settings:
            config = {k: v for k, v in setting.changes().items() if v != getattr(self.setting, k)}
            label = f"{name}: {next(iter(config.values()))}" if config else name
            label = label if name != "checkpointing" else f"{name}: {len(setting.checkpointed)}"
            row = self._contest.admit(setting, config, label)
            if row["reason"] is None:
                rows.append(row)
        if rows:
            self._settle(name, rows)

    def _settings(self, name):
        work, wanted = self._contest.work, self._precisions
        found = stages.settings(name, work, self.setting, self._optimizer)
        if name != "precision" or wanted is None:
            return found
        return [setting for setting in found if setting.precision in wanted]

    def _settle(self, name, rows):
        kept = self._contest.race(self._share, among=[self._current, *rows])
        if name == "checkpointing":
            kept = _saving(self._current, rows) or self._current
        before = self._current
        has_proof = kept is not None and before["reason"] is None
        if has_proof and kept is not before:
            self._current = kept
            self.setting = self._contest.runner_of(kept).setting
            self._note_second(name, kept, rows)
        for row in (before, *rows):
            if row is not self._current and row is not self._first:
                self._contest.dismiss(row)

    def _note_second(self, name, kept, rows):
        others = [r for r in rows if r is not kept and r["time"] and r["reason"] is None]
        second = min(others, key=lambda row: row["time"], default=None)
        if second is not None and second["time"] <= SECOND_LOOK_MAX * kept["time"]:
            self._seconds[name] = (second["config"], self.setting)

    def finish(self, tuned_loader, loader):
        """The last trial, of all changes against none."""
        runners = [self._contest.runner_of(row) for row in (self._first, self._current)]
        result = None
        try:
            if tuned_loader is not None:
                result = self._tuned(tuned_loader, runners[1])
        except EmptyEpoch as failure:
            self._notes.append(f"the loader is not part of this: {failure}")
            loader = None
        settings = [None, None]
        if loader is not None:
            own = own_config(loader)
            is_better = result is not None and result.best not in (None, own)
            settings = [own, result.best if is_better else own]
        final = self._final(runners, loader, settings)
        code = self.setting.code(self._contest.work.device.type)
        if settings[0] != settings[1]:
            code = [*result.code, *code]
            final[1]["config"]["dataloader"] = settings[1]
        notes = [*self._notes, *self._contest.notes()]
        return TuneResult(self._contest.rows, self.setting, final, result, code, notes)

    def _tuned(self, loader, runner):
        """The SweepResult of a loader; None where steps do not wait for it."""
        if not self._waits(loader, runner):
            return None
        with runner.stepping():
            return sweep_dataloader(loader, step=runner.step_on, seconds=2 * self._share)

    def _waits(self, loader, runner):
        """Whether loading a batch takes 5 % of a step at least, in which it is awaited."""
        device = self._contest.work.device
        variant = LoaderVariant(common_options(loader, {}), own_config(loader), None, device)
        with runner.stepping():
            runner.step()
            step_ns = _shortest(runner)
        return min(variant.time() for _ in range(2)) >= LOADING_SHARE_MIN * step_ns

    def _final(self, runners, loader, settings):
        rows = [empty_row(label, {}, "baseline") for label in ("as it is", "all changes")]
        rows[1]["config"] = dict(self.setting.changes())
        for row, of in zip(rows, (self._first, self._current), strict=True):
            row["peak_bytes"] = of["peak_bytes"]
        if runners[0] is runners[1] and settings[0] == settings[1]:
            return self._unchanged(rows)
        timers = self._timers(runners, loader, settings)
        trial = Trial(2)
        for number in paced(trial, 2 * self._share, math.inf):  # it has to say something
            trial.add(number, timers[number]())
        for number, row in enumerate(rows):
            add_times(row, trial, number, 0)
        return rows[0], rows[1], _improvements(rows, trial)

    def _timers(self, runners, loader, settings):
        """Functions that give the ns of a step."""
        if loader is None:
            return [self._contest.timer(runner) for runner in runners]
        common, device = common_options(loader, {}), self._contest.work.device
        span = Span(max(setting.get("num_workers", 0) for setting in settings))
        variants = [
            LoaderVariant(common, setting, runner.step_on, device, runner.stepping, span)
            for runner, setting in zip(runners, settings, strict=True)
        ]
        return [variant.time for variant in variants]

    def _unchanged(self, rows):
        """Nothing was kept: there is one program only, which is as fast as itself."""
        trial = Trial(1, rounds=ROUNDS_ALONE)
        timer = self._contest.timer(self._contest.runner_of(self._first))
        for number in trial:
            trial.add(number, timer())
        for row in rows:
            add_times(row, trial, 0, 0)
        return rows[0], rows[1], _improvements(rows, trial)


def _shortest(runner):
    device = runner.work.device
    return min(stopwatch.time_block(runner.step, 1, device) for _ in range(3))


def _saving(current, rows):
    """The row that saves most memory for its time, of those that save enough; or None."""
    if current["peak_bytes"] is None:
        return None
    least = (1 - SAVED_SHARE_MIN) * current["peak_bytes"]
    fine = [r for r in rows if r["time"] and r["peak_bytes"] and r["peak_bytes"] <= least]
    return max(fine, key=lambda row: _per_second(row, current), default=None)


def _per_second(row, current):
    lost = row["time"] - current["time"]
    return (current["peak_bytes"] - row["peak_bytes"]) / lost if lost > 0 else float("inf")


def _improvements(rows, trial):
    """Speedup is that of the trial; percentages say the same in another form."""
    baseline, optimized = rows
    speedup, interval = optimized["speedup"], optimized["speedup_interval"]
    last = trial.summary(1 if optimized["verdict"] != "baseline" else 0)
    verdict = "cannot_tell"
    if interval is not None and interval["low"] > 1:
        verdict = "faster"
    elif interval is not None and interval["high"] < 1:
        verdict = "slower"
    return {
        "time_improvement_percent": 100 - 100 / speedup,
        "memory_improvement_percent": _percent_less(baseline, optimized),
        "speedup_factor": speedup,
        "std": 0.0 if last["std_ns"] is None else last["std_ns"] / 1e9,
        "interval": interval,
        "verdict": verdict,
    }


def _percent_less(baseline, optimized):
    if not baseline["peak_bytes"] or optimized["peak_bytes"] is None:
        return None
    return 100 - 100 * optimized["peak_bytes"] / baseline["peak_bytes"]
