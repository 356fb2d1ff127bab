"""What a region costs a C program, against two reads of the counter and a store of 32 bytes.

Both alternate in one process (region_cost.c), so that a busy machine slows both; the figure that
counts is their ratio.

Use: region_cost.py [--tiny]    exit status 1 when a region takes more than it may
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("KSCOPE_BIN", ROOT / "build" / "kscope")).resolve().parent
RATIO_MAX = 1.25
SAID = re.compile(r"([\d.]+) ns, region ([\d.]+) ns, ([\d.]+) times; (\d+) events lost")


def build(folder):
    library = BUILD / "capture"
    program = folder / "region_cost"
    command = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", f"-I{ROOT}", f"-I{ROOT / 'include'}"]
    command += [str(ROOT / "bench" / "region_cost.c"), str(ROOT / "capture/shared/ticks.c")]
    command += [str(ROOT / "capture/shared/small_file.c"), f"-L{library}", "-lkscope_capture"]
    subprocess.run([*command, f"-Wl,-rpath,{library}", "-o", str(program)], check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description="Times a region of C.")
    parser.add_argument("--tiny", action="store_true", help="one round, no limit: does it run?")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [build(pathlib.Path(folder)), folder]
        command += ["1000", "1"] if options.tiny else []
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(said, end="")
    ratio = float(SAID.search(said)[3])
    return int(ratio > RATIO_MAX and not options.tiny)


if __name__ == "__main__":
    sys.exit(main())
