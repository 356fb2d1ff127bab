"""sweep_dataloader: settings of a DataLoader, timed by how fast batches come once they do."""

import contextlib
import math

import torch

from kinetoscope._engine import Trial
from kinetoscope.torch.state_guard import kept_random
from kinetoscope.tune import loader_candidates, loader_check
from kinetoscope.tune.contest import OVERTIME, ROUNDS_ALONE, paced, reason_of
from kinetoscope.tune.loader_timing import EmptyEpoch, LoaderVariant, Span, unwarned
from kinetoscope.tune.result import SweepResult, add_times, choose, empty_row

SECONDS = 20.0
NOISE = 0.05  # loaders that differ by less are alike
FINALISTS, NEAR = 3, 1.25  # so many at most, and so far from the quickest at the first look
WORSE, GIVE_UP = 0.95, 2  # a rung of the ladder that gains less than 5 %; so many of them end it


def sweep_dataloader(
    data, configs=None, *, step=None, device=None, seconds=SECONDS, tolerance=NOISE, **options
):
    """Loads batches with several settings of DataLoader; `.best` is the quickest, and of those that
    are as quick the one that comes first.

    data: a dataset, or a DataLoader, whose own setting is then the baseline. configs: arguments of
    DataLoader that differ ({"num_workers", "batch_size", ...}); the first one is the baseline.
    `options`: arguments that are the same for all (collate_fn, sampler, ...). Without configs
    workers are doubled while that helps, then more prefetching is tried, and the best three
    are timed against the baseline; cores, shared memory and free memory bound how many.

    step: called with each batch, as the training would be; without one the loader is as fast as it
    can be. device: batches are copied there (default: the GPU, where one is). Times are those of
    as many samples as a batch of the baseline has, with workers warm; the time to start them is
    `start_time`, and counts for each epoch unless they are persistent. Rows have
    `samples_per_second`.

    Each setting must give the same first batches as the baseline, or is rejected; where samples are
    random, the same shapes. `seconds` bounds the timing. Random states are as before, those of
    generators of the loader, its sampler and its dataset, too; a stream that can be read only once
    is consumed. Returns a SweepResult. TypeError: nothing to load from; ValueError: the loader
    gives nothing, or not enough.
    """
    common = loader_candidates.common_options(data, options)
    with kept_random(data, options, configs), unwarned():
        sweep = _Sweep(common, step, _device(device))
        if configs is None:
            return sweep.search(loader_candidates.own_config(data), seconds, tolerance)
        return sweep.compare([dict(config) for config in configs], seconds, tolerance)


def _device(device):
    if device is not None:
        return torch.device(device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class _Sweep:
    def __init__(self, common, step, device):
        self._common = common
        self._step = step
        self._device = device
        self._check = None
        self._span = None
        self.rows = []
        self.variants = []  # beside the rows; None: out

    def compare(self, configs, seconds, noise):
        """All of these against the first one."""
        if not configs:
            raise ValueError("there is no config to try")
        self._span = Span(max(config.get("num_workers", 0) for config in configs))
        for config in configs:
            self._admit(config)
        timed = [n for n, variant in enumerate(self.variants) if variant is not None]
        return self._race(timed, seconds, noise)

    def search(self, baseline, seconds, noise):
        """The ladder, then its best against the baseline."""
        limits = loader_candidates.Limits(self._common, self._device)
        self._span = Span(max(limits.workers_max, baseline.get("num_workers", 0)))
        looks = {}
        self._look(baseline, looks)
        if not looks:
            return SweepResult("dataloader", self.rows, None)
        best = self._climb(limits.workers(baseline), looks)
        self._climb(limits.prefetching(best), looks)
        near_ns = NEAR * min(looks.values())
        ranked = sorted((n for n in looks if n != 0 and looks[n] <= near_ns), key=looks.get)
        finalists = [0, *ranked[:FINALISTS]]
        for number in set(looks) - set(finalists):
            row = self.rows[number]
            row["verdict"], row["reason"] = "left_out", "others were quicker at the first look"
            row["time"] = looks[number] / 1e9
        return self._race(finalists, seconds, noise, is_race=False)

    def _climb(self, rungs, looks):
        """Looks at each once, until some in a row are no better; the best config of all so far."""
        misses = 0
        for config in rungs:
            best_ns = min(looks.values())
            self._look(config, looks)
            misses = 0 if min(looks.values()) < WORSE * best_ns else misses + 1
            if misses >= GIVE_UP:
                break
        return self.rows[min(looks, key=looks.get)]["config"]

    def _look(self, config, looks):
        number = len(self.rows)
        self._admit(config)
        variant = self.variants[number]
        if variant is not None:
            with self._failures_of(number):
                looks[number] = variant.time()

    def _admit(self, config):
        row = empty_row(loader_candidates.label(config), config, "baseline")
        row["samples_per_second"] = row["start_time"] = None
        row["code"] = loader_candidates.code(config)
        self.rows.append(row)
        self.variants.append(None)
        number = len(self.rows) - 1
        with self._failures_of(number):
            variant = LoaderVariant(self._common, config, self._step, self._device, span=self._span)
            if self._check is None:
                self._check = loader_check.Check(variant)
            reason = self._check.reason(variant)
            if reason is None:
                self.variants[number] = variant
            else:
                row["verdict"], row["reason"] = "rejected", reason

    @contextlib.contextmanager
    def _failures_of(self, number):
        try:
            yield
        except EmptyEpoch:
            if number == 0:  # then none has anything to give
                raise
            self._fail(number, "it gives no batch")
        except Exception as failure:  # of the dataset or its workers: the row says it
            self._fail(number, reason_of(failure))

    def _fail(self, number, reason):
        row = self.rows[number]
        row["verdict"], row["reason"] = "failed", reason
        self.variants[number] = None

    def _race(self, numbers, seconds, noise, is_race=True):
        """With is_race until the quickest is told from all others, else until the first one is."""
        if not numbers:
            return SweepResult("dataloader", self.rows, None)
        base = self.variants[numbers[0]]
        for number in numbers:
            self.variants[number].samples_per_unit = base.batch_size
            with self._failures_of(number):
                self.variants[number].settle()
        numbers = [number for number in numbers if self.variants[number] is not None]
        rounds = ROUNDS_ALONE if len(numbers) == 1 else 0
        numbers = self._affordable(numbers, seconds)
        trial = Trial(len(numbers), tolerance=noise, rounds=rounds, race=is_race)
        for at in paced(trial, seconds, math.inf):
            number = numbers[at]
            with self._failures_of(number):
                trial.add(at, self.variants[number].time())
            if self.variants[number] is None:
                trial.drop(at)
        return self._finish(trial, numbers, noise)

    def _affordable(self, numbers, seconds):
        """Two of them where all would take much longer than was asked for."""
        spent_s = sum(self.variants[n].spent_ns for n in numbers) * ROUNDS_ALONE / 1e9
        if spent_s <= OVERTIME * seconds or len(numbers) <= 2:
            return numbers
        for number in numbers[2:]:
            row = self.rows[number]
            row["verdict"], row["reason"] = "left_out", "there is no time to time it in full"
        return numbers[:2]

    def _finish(self, trial, numbers, noise):
        fine = [(at, n) for at, n in enumerate(numbers) if self.variants[n] is not None]
        for at, number in fine:
            row, variant = self.rows[number], self.variants[number]
            add_times(row, trial, at, 0)
            row["start_time"] = variant.start_ns / 1e9
            if row["time"] and variant.has_size:
                row["samples_per_second"] = variant.samples_per_unit / row["time"]
        fine = fine[:1] + sorted(fine[1:], key=lambda pair: pair[1])  # fewer workers first
        best = choose([self.rows[n] for _, n in fine], trial, [at for at, _ in fine], noise)
        return SweepResult("dataloader", self.rows, best, best["code"] if best else ())
