#!/usr/bin/env python3
"""Sizes of report pages, and what they cost over the report alone.

    bench/page.py [--full] [--shapes] [--runs N] [--tiny] [--folder DIR]

Inputs are a real trace grown to 100 MB (tools/gen_trace.py; --full: 500 MB and 2 GB, too), and with
--shapes all shapes that have far more of one thing than programs make (tools/gen_shapes.py), with
200,000 events. Both commands run in turn; times are those of the processor, shortest of N. Exit
status 1 when a page of a real trace has more than 5 MB, any page more than 20 MB, or a page of a
real trace costs more than half the report and a third of a second.
"""

import argparse
import pathlib
import shutil
import sys

from run import SOURCES, TINY_SOURCE, WORK, alternate, grown, program_under_test, warm

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import gen_shapes  # noqa: E402

MB = 1000 * 1000
TYPICAL_MAX = 5 * MB
ANY_MAX = 20 * MB
COST_SHARE_MAX = 0.5
COST_SECONDS_FREE = 0.33  # compressing takes as long for a small trace as for a large one


def measure(name, path, runs, folder):
    """(page bytes, processor seconds of the report alone, with the page)."""
    warm(path)
    page = folder / "page.html"
    report = [program_under_test(), "report", "--threads", "2", "-o", "/dev/null"]
    commands = {"report": [*report, str(path)], "page": [*report, "--html", str(page), str(path)]}
    results = alternate(commands, dict.fromkeys(commands, runs))
    seconds = {key: min(cpu for _, cpu, _ in rows) for key, rows in results.items()}
    peaks = {key: max(peak for _, _, peak in rows) / MB for key, rows in results.items()}
    size = page.stat().st_size
    page.unlink()
    print(
        f"{name:24} {path.stat().st_size / MB:8.1f} {size / MB:7.2f} {seconds['report']:8.2f}s "
        f"{seconds['page']:8.2f}s {peaks['report']:8.0f} {peaks['page']:8.0f}",
        flush=True,
    )
    return size, seconds["report"], seconds["page"]


def judge_trace(name, figures):
    size, report, page = figures
    if size > TYPICAL_MAX:
        yield f"{name}: the page has {size / MB:.1f} MB, not at most {TYPICAL_MAX / MB:.0f}"
    if page - report > COST_SHARE_MAX * report + COST_SECONDS_FREE:
        yield f"{name}: the page costs {page - report:.2f} s more than the {report:.2f} s without"


def judge_shape(name, figures):
    if figures[0] > ANY_MAX:
        yield f"{name}: the page has {figures[0] / MB:.1f} MB, not at most {ANY_MAX / MB:.0f}"


def main(arguments):
    parser = argparse.ArgumentParser(description="Sizes and costs of report pages.")
    parser.add_argument("--full", action="store_true", help="inputs of 500 MB and 2 GB, too")
    parser.add_argument("--shapes", action="store_true", help="all shapes of tools/gen_shapes.py")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="small inputs, one run, no limits")
    parser.add_argument("--folder", type=pathlib.Path, default=WORK, help="where inputs are kept")
    options = parser.parse_args(arguments)
    runs = 1 if options.tiny else options.runs
    sizes = [1] if options.tiny else [100, 500, 2000] if options.full else [100]
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{'':24} {'MB':>8} {'page MB':>7} {'report':>9} {'page':>9} {'peak MB':>8} {'':>8}")
    missed = []
    for size_mb in sizes:
        for source in (TINY_SOURCE,) if options.tiny else SOURCES[:1]:
            path = grown(source, size_mb, options.folder)
            name = f"{source.split('.pt.')[0]}, {size_mb} MB"
            missed += judge_trace(name, measure(name, path, runs, options.folder))
    scratch = options.folder / "page-shapes"
    for name in gen_shapes.SHAPES if options.shapes else ():
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        path = scratch / f"{name}.json"
        gen_shapes.write(name, 1000 if options.tiny else 200_000, path)
        missed += judge_shape(name, measure(name, path, 1, scratch))
    shutil.rmtree(scratch, ignore_errors=True)
    for sentence in [] if options.tiny else missed:
        print(f"missed: {sentence}")
    return 1 if missed and not options.tiny else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
