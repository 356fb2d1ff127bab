"""What the stack sampler costs a training: blocks of steps with it and without, alternating in one
process.

A figure is the median over pairs of neighbouring blocks of how much longer the median step was with
it, by the clock on the wall and by the CPU clock of the training's thread; beside it stands how far
that median is sure. Beside them: CPU time for each look, the sampler's own and what it adds to the
training's thread. On a machine with other work a step takes many times its CPU time, and so many
more looks fall on it; what comes out then says little, and is not judged.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "capture"))

import build_sampler  # noqa: E402
import torch  # noqa: E402
import training_program  # noqa: E402

PERCENT_MAX = 1.0  # of a step, at 1000 Hz and below


def median_of(values):
    """Median, and the standard error of it by the median deviation."""
    middle = statistics.median(values)
    spread = statistics.median(abs(value - middle) for value in values)
    return middle, 1.86 * spread / len(values) ** 0.5


def medians(times):
    """Of the wall and of the CPU clock."""
    return [statistics.median(column) for column in zip(*times, strict=True)]


def time_block(training, sampler, steps):
    """Median step by both clocks; with a sampler also its counts."""
    if not sampler:
        return medians(training_program.time_steps(training, steps)), None
    with sampler:
        took = medians(training_program.time_steps(training, steps))
    return took, sampler.counts()


def measure(training, make_sampler, pairs, steps):
    """For both clocks the percents that steps are longer and the plain steps; counts of all blocks.

    The order within a pair alternates, so that a machine that slows down favours neither."""
    longer, plain, all_counts = ([], []), ([], []), []
    for pair in range(pairs):
        found = {}
        for with_it in (pair % 2 == 0, pair % 2 == 1):
            sampler = make_sampler() if with_it else None
            found[with_it], counts = time_block(training, sampler, steps)
            all_counts += [counts] if counts else []
        for clock in (0, 1):
            plain[clock].append(found[False][clock])
            longer[clock].append(100 * (found[True][clock] / found[False][clock] - 1))
    total = {name: sum(counts[name] for counts in all_counts) for name in all_counts[0]}
    return longer, plain, total


def measure_rate(training, module, rate_hz, options):
    """Prints a line; gives what is wrong."""
    wrong = []
    line = f"{rate_hz:5} Hz"
    is_busy = os.getloadavg()[0] > 1.5
    longer, plain, counts = measure(
        training, lambda: module.StackSampler(rate_hz), options.pairs, options.steps
    )
    for clock, name in enumerate(("wall", "CPU")):
        percent, unsure = median_of(longer[clock])
        step_ms = statistics.median(plain[clock]) / 1e6
        line += f" {step_ms:8.2f} ms {percent:6.2f} +- {unsure:.2f} %"
        if percent - 2 * unsure > PERCENT_MAX and not is_busy:
            wrong.append(f"{rate_hz} Hz: more than {PERCENT_MAX} % of a step by the {name} clock")
    torn = counts["torn"] / max(1, counts["torn"] + counts["samples"])
    looks = max(1, counts["looks"])
    own_us = counts["cpu_ns"] / 1e3 / looks
    looks_in_step = looks / (options.pairs * options.steps)
    added_us = percent / 100 * step_ms * 1e3 / looks_in_step  # by the CPU clock, which came last
    print(f"{line} {own_us:7.1f} us {added_us:7.1f} us {torn:6.1%}", end="")
    print("  busy machine, not judged" if is_busy else "", flush=True)
    return wrong


def main(arguments):
    parser = argparse.ArgumentParser(description="Times a training with the stack sampler.")
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--steps", type=int, default=20, help="of a block")
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 1000], help="Hz")
    parser.add_argument("--tiny", action="store_true", help="one pair of short blocks, no limits")
    options = parser.parse_args(arguments)
    if options.tiny:
        options.pairs, options.steps = 1, 2
    torch.set_num_threads(1)
    training = training_program.Training()
    training_program.time_steps(training, 5)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, str(build_sampler.build(sys.executable, folder)))
        import _kscope_sampler

        _kscope_sampler.start_recording(folder)
        print(f"{'rate':>8} {'step, wall':>11} {'longer':>15} {'step, CPU':>13} ", end="")
        print(f"{'longer':>14} {'own, a look':>12} {'added':>9} {'torn':>6}")
        for rate_hz in options.rates:
            wrong += measure_rate(training, _kscope_sampler, rate_hz, options)
        _kscope_sampler.stop_recording()
    for sentence in [] if options.tiny else wrong:
        print(f"missed: {sentence}")
    return 1 if wrong and not options.tiny else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
