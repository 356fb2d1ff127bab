"""What usual advice really gave on this machine: docs/claims.md, in part.

Each claim is an experiment of two variants of the same work (claim_programs.py), timed in turn
until it is known how they compare (kscope/kscope_trial.h). Memory, on a GPU, is what a block had
allocated at most above what lay there when it began: activations, and what comes and goes.

Use: claims.py [--device cpu|cuda] [--seconds N] [--only WORD] [--write docs/claims.md] [--tiny]
"""

import argparse
import datetime
import gc
import os
import pathlib
import platform
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402
from claim_programs import CLAIMS, Setting  # noqa: E402
from kinetoscope._engine import Trial  # noqa: E402

HEAD = "| | usually claimed | before; after | ms before | ms after | ratio | verdict | memory |"


def timed(work, setting):
    """ns of one block, and bytes that it had allocated at most above what was there before."""
    before = 0
    if setting.is_gpu:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    began = time.perf_counter_ns()
    work()
    took = time.perf_counter_ns() - began
    return took, torch.cuda.max_memory_allocated() - before if setting.is_gpu else 0


def measure(claim, setting, seconds):
    """A row of the table."""
    variants = claim.make(setting)
    works, peaks = (variants.before, variants.after), [0, 0]
    try:
        for work in works:
            work()
        trial = Trial(2, seconds=seconds)
        for index in trial:
            took, peak = timed(works[index], setting)
            trial.add(index, took)
            peaks[index] = max(peaks[index], peak)
    finally:
        variants.close()
    memory = " to ".join(f"{peak / 2**20:.0f}" for peak in peaks) + " MiB"
    return row_of(claim, trial, memory if setting.is_gpu else "")


def row_of(claim, trial, memory):
    told = trial.compare(0, 1)
    before, after = (trial.summary(index)["median_ns"] / 1e6 for index in (0, 1))
    keys = ("ratio", "low", "high") if claim.costs else ("speedup", "speedup_low", "speedup_high")
    value, low, high = (told[key] for key in keys)
    ends = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    ratio = f"{value:.2f} times as {'long' if claim.costs else 'fast'}{ends}"
    verdict = told["verdict"].replace("_", " ")
    cells = (claim.name, claim.usual, claim.what, f"{before:.1f}", f"{after:.1f}", ratio, verdict)
    return "| " + " | ".join((*cells, memory)) + " |"


def machine(setting):
    device = torch.cuda.get_device_name() if setting.is_gpu else "a CPU"
    cores = f"{os.cpu_count()} cores of {platform.machine()}"
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    return f"{datetime.date.today()}, {device}, {cores}, {load}, torch {torch.__version__}."


def section(setting, options):
    lines = [machine(setting), "", HEAD, "|" + "---|" * (HEAD.count("|") - 1)]
    for claim in CLAIMS:
        if options.only and options.only not in claim.name:
            continue
        try:
            lines.append(measure(claim, setting, options.seconds))
        except Exception as failure:  # one that a machine cannot run says why, the rest goes on
            why = str(failure).splitlines()[0] if str(failure) else ""
            why = f"{type(failure).__name__}: {why[:90]}"
            lines.append(f"| {claim.name} | {claim.usual} | {claim.what} | | | | {why} | |")
        print(lines[-1], flush=True)
        gc.collect()
        torch.compiler.reset()
        if setting.is_gpu:
            torch.cuda.empty_cache()
    return "\n".join(lines)


def write(path, device, text):
    """Between the two marks of this device in the page."""
    begin, end = f"<!-- claims: {device} -->", f"<!-- end: {device} -->"
    page = pathlib.Path(path).read_text()
    parts = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
    if not parts.search(page):
        sys.exit(f"{path} has no marks of {device}")
    page = parts.sub(lambda _: f"{begin}\n{text}\n{end}", page)
    pathlib.Path(path).write_text(page)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seconds", type=float, default=20, help="for each claim at most")
    parser.add_argument("--only", help="claims with this word in their name")
    parser.add_argument("--write", metavar="PAGE", help="put the table into this page")
    parser.add_argument("--tiny", action="store_true", help="only see that it works")
    options = parser.parse_args()
    if options.tiny:
        options.seconds = 0.01
    if options.device == "cpu":
        torch.set_num_threads(1)
    setting = Setting(options.device, options.tiny)
    text = section(setting, options)
    if options.write:
        write(options.write, options.device, text)


if __name__ == "__main__":
    main()
