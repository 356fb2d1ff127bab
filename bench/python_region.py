"""What a region costs a Python program: `with region` of ours, beside what people use today.

All kinds take turns in one process, round for round, so that a busy machine meets them alike; each
figure is the median of the rounds, less that of an empty loop, in CPU time of the thread. Between
turns is a pause, in which the recorder makes room, as it does beside a program that also works.

    record_function   torch.profiler.record_function, while no profiler runs
    dict              a class that keeps time.perf_counter() differences in a dict of lists
    dict, generator   the same by contextlib.contextmanager
"""

import argparse
import contextlib
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORD_FUNCTION_RATIO_MIN = 40
DICT_RATIO_MIN = 10
PAUSE_SECONDS = 0.02


class DictRecorder:
    def __init__(self):
        self.seconds = {}
        self.open = []

    def __call__(self, name):
        return _DictRegion(self, name)

    @contextlib.contextmanager
    def by_generator(self, name):
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds.setdefault(name, []).append(time.perf_counter() - begin)


class _DictRegion:
    def __init__(self, recorder, name):
        self.recorder, self.name = recorder, name

    def __enter__(self):
        self.begin = time.perf_counter()
        return self

    def __exit__(self, *_):
        took = time.perf_counter() - self.begin
        self.recorder.seconds.setdefault(self.name, []).append(took)


def each_ns(rounds, run):
    begin = time.thread_time_ns()
    run(range(rounds))
    return (time.thread_time_ns() - begin) / rounds


def empty(rounds):
    for _ in rounds:
        pass


def kept(region):
    def run(rounds):
        for _ in rounds:
            with region:
                pass

    return run


def made(make):
    def run(rounds):
        for _ in rounds:
            with make("step"):
                pass

    return run


def measure(kinds, blocks, rounds):
    """Median of `rounds` turns, less the empty loop's."""
    found = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, run in kinds.items():
            time.sleep(PAUSE_SECONDS)
            found[name].append(each_ns(max(blocks // (20 if "function" in name else 1), 1), run))
    medians = {name: statistics.median(times) for name, times in found.items()}
    loop = medians.pop("empty loop")
    return {name: median - loop for name, median in medians.items()}


def main(arguments):
    parser = argparse.ArgumentParser(description="Times a region of kinetoscope in Python.")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--tiny", action="store_true", help="two short rounds, no limits")
    options = parser.parse_args(arguments)
    rounds, blocks = (2, 200) if options.tiny else (options.rounds, 20000)
    sys.path.insert(0, str(ROOT / "python"))
    import kinetoscope
    import torch

    recorder = DictRecorder()
    region = kinetoscope.profile_operation("step", "training_loop")
    off = measure({"empty loop": empty, "off": kept(region)}, blocks, rounds)["off"]
    kinds = {
        "empty loop": empty,
        "region": kept(region),
        "region, made anew": made(kinetoscope.profile_operation),
        "record_function": made(torch.profiler.record_function),
        "dict": made(recorder),
        "dict, generator": made(recorder.by_generator),
    }
    with tempfile.TemporaryDirectory() as folder:
        kinetoscope.start_recording(folder)
        figures = measure(kinds, blocks, rounds)
        kinetoscope.stop_recording()
    ours = figures["region"]
    print(f"{'region, not recording':24} {off:9.1f} ns")
    for name, figure in figures.items():
        print(f"{name:24} {figure:9.1f} ns  {figure / ours:6.1f} x a region")
    missed = []
    for name, least in (("record_function", RECORD_FUNCTION_RATIO_MIN), ("dict", DICT_RATIO_MIN)):
        if figures[name] / ours < least:
            missed.append(f"missed: {name} costs less than {least} regions")
    print("\n".join([] if options.tiny else missed), end="\n" if missed else "")
    return 1 if missed and not options.tiny else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
