#!/usr/bin/env python3
"""Counts the instructions that reading takes for each event, which no other load can disturb.

    bench/instructions.py [--record] [--tiny] [--folder DIR]

Runs `kscope info --threads 1` (read and seal) under callgrind on small grown inputs and compares
with bench/baselines/instructions.json. Exit status 1 when an input takes over 3 % more than
recorded. `--record` writes the file anew: in the commit that changes the count, with the reason.
Another compiler, C library or kind of processor counts differently; the file says which it was.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from run import SOURCES, TINY_SOURCE, WORK, grown, program_under_test

BASELINE = pathlib.Path(__file__).resolve().parent / "baselines" / "instructions.json"
SIZE_MB = 5
MORE_AT_MOST = 1.03


def instructions(path, folder):
    """Instructions of one run, from what callgrind says at its end."""
    out = folder / "callgrind.out"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
    command += [program_under_test(), "info", "--threads", "1", "--json", str(path)]
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True
    )
    out.unlink(missing_ok=True)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def machine():
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True)
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return {
        "compiler": compiler.stdout.splitlines()[0],
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "avx2": " avx2 " in flags,
    }


def measure(sources, size_mb, folder):
    out = {}
    for source in sources:
        path = grown(source, size_mb, folder)
        events = path.read_bytes().count(b'"ph":')
        count = instructions(path, folder)
        out[source.split(".pt.")[0]] = {"events": events, "per_event": round(count / events)}
    return out


def compare(results, recorded):
    """A sentence for each input that takes more than recorded."""
    slower = []
    print(f"{'input':20} {'events':>9} {'now':>7} {'recorded':>9}  ratio")
    for name, row in results.items():
        before = recorded.get(name, {}).get("per_event")
        ratio = row["per_event"] / before if before else None
        shown = f"{before:9}  {ratio:.3f}" if before else f"{'-':>9}  -"
        print(f"{name:20} {row['events']:9} {row['per_event']:7} {shown}")
        if ratio and ratio > MORE_AT_MOST:
            slower.append(f"{name}: {row['per_event']} instructions for each event, not {before}")
    return slower


def main(arguments):
    parser = argparse.ArgumentParser(description="Counts instructions of reading, by callgrind.")
    parser.add_argument("--record", action="store_true", help="write the baseline anew")
    parser.add_argument("--tiny", action="store_true", help="one small input, nothing compared")
    parser.add_argument("--folder", type=pathlib.Path, default=WORK, help="where inputs are kept")
    options = parser.parse_args(arguments)
    if not shutil.which("valgrind"):
        sys.exit("instructions: valgrind is not there: tools/setup.sh bench installs it")
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.tiny:
        compare(measure((TINY_SOURCE,), 0.3, options.folder), {})
        return 0
    results = measure(SOURCES, SIZE_MB, options.folder)
    if options.record:
        document = {"machine": machine(), "inputs": results}
        BASELINE.parent.mkdir(exist_ok=True)
        BASELINE.write_text(json.dumps(document, indent=1) + "\n")
    recorded = json.loads(BASELINE.read_text())
    if recorded["machine"] != machine():
        print(f"recorded elsewhere: {recorded['machine']}")
    slower = compare(results, recorded["inputs"])
    for sentence in slower:
        print(f"slower: {sentence}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
