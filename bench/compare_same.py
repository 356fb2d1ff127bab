"""How often compare() finds a difference where there is none: a function against itself, again and
again, on whatever else this machine does meanwhile.

Prints how many comparisons ended in each verdict; 95 of 100 must end in no_difference.

Use: compare_same.py [--repeats N] [--seconds S] [--size N] [--tiny]
"""

import argparse
import collections
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import kinetoscope  # noqa: E402
import torch  # noqa: E402

SHARE_MIN = 0.95


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--tiny", action="store_true", help="two short ones, nothing judged")
    options = parser.parse_args()
    if options.tiny:
        options.repeats, options.seconds, options.size = 2, 0.3, 32
    return options


def main():
    options = parse_options()
    torch.set_num_threads(1)
    matrix = torch.randn(options.size, options.size)

    def work():
        return (matrix @ matrix).relu().sum()

    verdicts, rounds, spans = collections.Counter(), [], []
    for _ in range(options.repeats):
        told = kinetoscope.compare(work, work, seconds=options.seconds, memory=False)
        verdicts[told.verdict] += 1
        rounds.append(told.rounds)
        if told.interval["low"] is not None:
            spans.append(told.interval["high"] - told.interval["low"])
    named = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    print(f"{options.repeats} comparisons of a function with itself: {named}")
    print(f"rounds {min(rounds)} to {max(rounds)}, widest interval {max(spans, default=0):.3f}")
    share = verdicts["no_difference"] / options.repeats
    return 1 if not options.tiny and share < SHARE_MIN else 0


if __name__ == "__main__":
    sys.exit(main())
