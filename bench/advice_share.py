#!/usr/bin/env python3
"""Measures which part of a report's work is advice, in instructions, which no other load disturbs.

    bench/advice_share.py [--tiny] [--folder DIR]

Runs `kscope report --threads 1 --no-cache` under callgrind on a trace grown to 500 MB, in which
many rules replay the step, and compares what the rules and opportunities take with the whole. Exit
status 1 when it is over 5 %.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

from run import LARGE_MB, SOURCES, TINY_SOURCE, WORK, grown, program_under_test

SHARE_MAX = 0.05
FUNCTIONS = ("ks_findings_compute", "ks_opportunities_compute")


def count_of(listing, name):
    """Instructions in `name` and what it calls; 0: too few to be listed."""
    found = re.search(rf"^ *([\d,]+) .*\b{name}\b", listing, re.MULTILINE)
    return int(found.group(1).replace(",", "")) if found else 0


def advice_share(path, folder):
    out = folder / "callgrind.out"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
    command += [program_under_test(), "report", "--threads", "1", "--no-cache", str(path)]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    annotate = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(out)]
    listing = subprocess.run(annotate, capture_output=True, text=True, check=True).stdout
    out.unlink(missing_ok=True)
    total = count_of(listing, "PROGRAM TOTALS")
    if not total or "ks_findings_compute" not in listing:
        sys.exit("advice_share: callgrind does not tell of ks_findings_compute")
    return sum(count_of(listing, name) for name in FUNCTIONS) / total


def main(arguments):
    parser = argparse.ArgumentParser(description="Measures the part of a report that is advice.")
    parser.add_argument("--tiny", action="store_true", help="one small input, nothing compared")
    parser.add_argument("--folder", type=pathlib.Path, default=WORK, help="where inputs are kept")
    options = parser.parse_args(arguments)
    if not shutil.which("valgrind"):
        sys.exit("advice_share: valgrind is not there: tools/setup.sh bench installs it")
    options.folder.mkdir(parents=True, exist_ok=True)
    source, size_mb = (TINY_SOURCE, 0.3) if options.tiny else (SOURCES[0], LARGE_MB)
    share = advice_share(grown(source, size_mb, options.folder), options.folder)
    print(f"advice takes {100 * share:.2f} % of the report of {source}, {size_mb:g} MB")
    return 1 if share > SHARE_MAX and not options.tiny else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
