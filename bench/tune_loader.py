"""How good the search of sweep_dataloader is, and what it costs, beside trying everything.

A data set whose samples take a while to read and a while to decode starves whatever it feeds.
Exhaustive: each combination of workers, prefetching and persistence that the search may choose
from, over whole epochs, --epochs times in turn, the median of each counting. Search:
sweep_dataloader without configs. Both settings are then timed against each other, whole epochs in
turn, and that is what is judged: the setting that was found is within 10 % of the best one, at no
more than a quarter of its time.

Use: tune_loader.py [--samples N] [--read-ms T] [--decode-us T] [--epochs N] [--tiny]
"""

import argparse
import os
import pathlib
import statistics
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import kinetoscope  # noqa: E402
import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

WORSE_MAX, COST_MAX = 1.10, 0.25
ROUNDS = 5


class Samples(Dataset):
    def __init__(self, options):
        self.size = options.samples
        self.read_s = options.read_ms / 1e3
        self.decode_ns = options.decode_us * 1e3

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        time.sleep(self.read_s)
        end = time.thread_time_ns() + self.decode_ns
        while time.thread_time_ns() < end:
            pass
        return torch.full((32,), float(index))


def combinations(workers_max):
    yield {"num_workers": 0}
    workers = 1
    while workers <= workers_max:
        for factor in (2, 4, 8):
            for is_persistent in (False, True):
                yield {
                    "num_workers": workers,
                    "prefetch_factor": factor,
                    "persistent_workers": is_persistent,
                }
        workers += 1


def epoch_seconds(loader):
    """Of an epoch that is not the first one: persistent workers are there."""
    began = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - began


def try_everything(data, options, configs):
    """(seconds that it took, the best config)"""
    began = time.perf_counter()
    times = {}
    for number, config in enumerate(configs):
        loader = DataLoader(data, options.batch, **config)
        if config.get("persistent_workers"):
            epoch_seconds(loader)
        times[number] = statistics.median(epoch_seconds(loader) for _ in range(options.epochs))
        del loader
    best = min(times, key=times.get)
    return time.perf_counter() - began, configs[best]


def compare(data, options, *configs):
    """Median epochs of settings, timed in turn."""
    loaders = [DataLoader(data, options.batch, **config) for config in configs]
    for loader in loaders:
        epoch_seconds(loader)
    times = [[] for _ in loaders]
    for turn in range(2 if options.tiny else ROUNDS):
        order = range(len(loaders)) if turn % 2 == 0 else reversed(range(len(loaders)))
        for number in order:
            times[number].append(epoch_seconds(loaders[number]))
    return [statistics.median(of) for of in times]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=480)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--read-ms", type=float, default=4)
    parser.add_argument("--decode-us", type=float, default=300)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="one small round, nothing judged")
    options = parser.parse_args()
    if options.tiny:
        options.samples, options.epochs = 48, 1
    return options


def main():
    options = parse_options()
    warnings.filterwarnings("ignore", "This DataLoader will create")
    torch.set_num_threads(1)
    data = Samples(options)
    # As many as the search may choose (docs/tuning_python.md).
    workers_max = 2 if options.tiny else max(4, 2 * len(os.sched_getaffinity(0)))
    configs = list(combinations(workers_max))
    spent_s, best = try_everything(data, options, configs)
    began = time.perf_counter()
    loader = DataLoader(data, options.batch)
    result = kinetoscope.sweep_dataloader(loader, seconds=1 if options.tiny else 4)
    search_s = time.perf_counter() - began
    found = {k: v for k, v in result.best.items() if k != "batch_size"}
    plain_s, best_s, found_s = compare(data, options, {"num_workers": 0}, best, found)
    print(f"everything  {spent_s:7.1f} s  {len(configs)} settings, best {best}")
    print(f"search      {search_s:7.1f} s  {len(result)} settings, found {found}")
    print(f"epochs: {plain_s:.3f} s without workers, {best_s:.3f} s best, {found_s:.3f} s found")
    worse, cost = found_s / best_s, search_s / spent_s
    print(f"found is {worse:.3f} of the best, at {cost:.3f} of the time")
    return 1 if not options.tiny and (worse > WORSE_MAX or cost > COST_MAX) else 0


if __name__ == "__main__":
    sys.exit(main())
