#!/usr/bin/env python3
"""What reading a memory snapshot costs, beside torch's own reader.

    bench/snapshot.py [--runs N] [--tiny] [--folder DIR]

The input is 100 MB from tools/gen_snapshot.py: stacks of up to 100 frames, a trace of 656,000
events. Peers: Python's pickle alone, and with it the folded stacks of torch.cuda._memory_viz, which
is a small part of what `kscope memory` says. Exit status 1 when we need more than 2 s of the
processor or 1 GiB.
"""

import argparse
import importlib.util
import pathlib
import subprocess
import sys

from run import WORK, alternate, program_under_test, warm

ROOT = pathlib.Path(__file__).resolve().parent.parent
MB = 1000 * 1000
SECONDS_MAX = 2.0
PEAK_MAX = 1 << 30
LOAD = "import pickle, sys; snapshot = pickle.load(open(sys.argv[1], 'rb'))"
FOLD = """
import importlib.util
spec = importlib.util.spec_from_file_location("viz", sys.argv[2])
viz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(viz)
viz.memory(snapshot, format_flamegraph=len)
"""


def make_input(folder, is_tiny):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("snapshot_tiny.pickle" if is_tiny else "snapshot_100.pickle")
    if not path.exists():
        size = ["--events", "500"] if is_tiny else ["--events", "8000", "--copies", "82"]
        command = [sys.executable, str(ROOT / "tools" / "gen_snapshot.py"), str(path), *size]
        subprocess.run([*command, "--depth", "100"], check=True, stdout=subprocess.DEVNULL)
    return path


def commands_for(path):
    commands = {
        "kscope memory": [program_under_test(), "memory", "-o", "/dev/null", str(path)],
        "pickle.load": [sys.executable, "-c", LOAD, str(path)],
    }
    spec = importlib.util.find_spec("torch")
    if spec is not None:
        viz = pathlib.Path(spec.submodule_search_locations[0]) / "cuda" / "_memory_viz.py"
        commands["_memory_viz"] = [sys.executable, "-c", LOAD + FOLD, str(path), str(viz)]
    return commands


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path, default=WORK)
    options = parser.parse_args()
    path = make_input(options.folder, options.tiny)
    warm(path)
    commands = commands_for(path)
    results = alternate(commands, dict.fromkeys(commands, 1 if options.tiny else options.runs))
    print(f"{path.stat().st_size / MB:.1f} MB{'':16} {'wall':>8} {'CPU':>8} {'peak MB':>8}")
    for name, rows in results.items():
        wall, cpu, peak = (min(row[i] for row in rows) for i in range(3))
        print(f"{name:24} {wall:7.2f}s {cpu:7.2f}s {peak / MB:8.0f}", flush=True)
    _, cpu, peak = (min(row[i] for row in results["kscope memory"]) for i in range(3))
    return int(cpu > SECONDS_MAX or peak > PEAK_MAX)


if __name__ == "__main__":
    sys.exit(main())
