"""Our stack sampler and function profiler against py-spy, austin, scalene and viztracer: a training
runs under each in turn, and alone.

Said is how many times as long its steps take, by the clock on the wall and by the CPU clock of the
training's thread, and how much CPU time all processes together, beside the training alone in the
same round; the size of the file, and how long it takes to open it. Of the steps of a run the lower
quartile counts: what a profiler adds it adds to all of them, and other work to some. Opening is for
ours `kscope report`, which reads, counts and shows; for JSON what Python's json module takes to
load it, as viewers in a browser must before they show anything.

Use: peers_python.py [--seconds N] [--steps N] [--peers FOLDER] [--tiny]

A round takes some 40 s where there is no other work. Rounds begin for N seconds; what has not begun
after 90 is left out. The peers are in FOLDER (.venv-peers), an environment that `tools/setup.sh
peers` makes from requirements-bench-python.txt; one that does not run here is named, with its own
words.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
KSCOPE = pathlib.Path(os.environ.get("KSCOPE_BIN", ROOT / "build" / "kscope")).resolve()
PROGRAM = str(ROOT / "bench" / "training_program.py")
RATE_HZ = 1000
SECONDS_MAX = 60  # of one run
SECONDS_TO_BEGIN = 90


def commands(peers, out, steps):
    """{name: (command, does it need the peers' packages)}; each writes below `out`."""
    python, program = [sys.executable], [PROGRAM, str(steps)]
    ours = [*python, str(ROOT / "bench" / "recorded_program.py")]
    spy = [str(peers / "bin" / "py-spy"), "record", "-f", "speedscope", "-o", f"{out}/spy.json"]
    spied = ["--", *python, *program]
    fast = ["-r", str(RATE_HZ), "--nonblocking"]
    austin = [str(peers / "bin" / "austin"), "-i", f"{1000 // RATE_HZ}ms", "-o", f"{out}/austin"]
    scalene = [*python, "-m", "scalene", "run", "--cpu-only", "-o", f"{out}/s.json"]
    tracer = [*python, "-m", "viztracer", "--quiet", "-o", f"{out}/v.json", "--"]
    return {
        "alone": (python + program, False),
        "kscope samples, 100 Hz": ([*ours, "samples", out, "100", *program], False),
        "kscope samples": ([*ours, "samples", out, str(RATE_HZ), *program], False),
        "py-spy, 100 Hz": ([*spy, *spied], False),
        "py-spy, nonblocking": ([*spy, *fast, *spied], False),
        "austin": (austin + python + program, False),
        "scalene, CPU only": ([*scalene, PROGRAM, "---", str(steps)], True),
        "kscope functions": ([*ours, "functions", out, "0", *program], False),
        "viztracer": (tracer + program, True),
    }


def times_of(text):
    """The program's list, wherever the peer's own words are."""
    for line in text.splitlines():
        if line.startswith("["):
            try:
                return json.loads(line)
            except ValueError:
                continue
    return None


def open_seconds(path):
    begin = time.perf_counter()
    if path.suffix == ".ksrec":
        command = [str(KSCOPE), "report", "--no-cache", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elif path.suffix == ".json":
        json.loads(path.read_text())
    else:
        path.read_bytes()
    return time.perf_counter() - begin


def words_of(done):
    """The first line in which a program that ended badly says why."""
    words = (done.stderr or done.stdout).strip().splitlines()
    library = re.search(r"version `(GLIBC_[0-9.]+)' not found", words[0] if words else "")
    if library:
        return f"needs {library[1]}, and here is {os.confstr('CS_GNU_LIBC_VERSION')}"
    return words[0] if words else f"status {done.returncode}"


def run_once(command, packages, out):
    """(ns of a step by both clocks, CPU seconds, bytes, seconds to open), or what went wrong."""
    env = dict(os.environ, PYTHONPATH=packages) if packages else os.environ
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=env, cwd=out, timeout=SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return f"took more than {SECONDS_MAX} s"
    except OSError as error:
        return str(error)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    times = times_of(done.stdout)
    if done.returncode != 0 or not times:
        return words_of(done)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    files = [path for path in pathlib.Path(out).iterdir() if path.is_file()]
    size = sum(path.stat().st_blocks * 512 for path in files)
    step = [statistics.quantiles(column, n=4)[0] for column in zip(*times, strict=True)]
    return *step, cpu, size, sum(map(open_seconds, files))


def run_round(options, peers, begin):
    """{name: what run_once gives}."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = str(peers / "lib" / version / "site-packages")
    found = {}
    for name in commands(peers, "", options.steps):
        if found and isinstance(found["alone"], str):
            break
        if time.monotonic() - begin > SECONDS_TO_BEGIN:
            found[name] = f"{SECONDS_TO_BEGIN} s were over"
            continue
        with tempfile.TemporaryDirectory() as out:
            command, needs = commands(peers, out, options.steps)[name]
            found[name] = run_once(command, packages if needs else None, out)
    return found


def measure(options, peers):
    """Rounds; a peer that did not run once has words there."""
    rounds, begin = [], time.monotonic()
    while not rounds or time.monotonic() - begin < options.seconds:
        rounds.append(run_round(options, peers, begin))
    return rounds


def show(name, rows, alone):
    """Medians over rounds, ratios to the run alone in the same round."""
    step, step_cpu, cpu = (
        statistics.median(row[i] / plain[i] for row, plain in zip(rows, alone, strict=True))
        for i in range(3)
    )
    size, to_open = (statistics.median(row[i] for row in rows) for i in (3, 4))
    print(
        f"{name:24}{step:8.2f}{step_cpu:10.2f}{cpu:9.2f}{size / 1024:10.0f} KB"
        f"{1e3 * to_open:9.1f} ms"
    )


def main(arguments):
    parser = argparse.ArgumentParser(description="Compares Python profilers on a training.")
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--peers", default=str(ROOT / ".venv-peers"))
    parser.add_argument("--tiny", action="store_true", help="one round, few steps")
    options = parser.parse_args(arguments)
    if options.tiny:
        options.seconds, options.steps = 0, 2
    rounds = measure(options, pathlib.Path(options.peers).resolve())
    if isinstance(rounds[0]["alone"], str):
        print(f"the training does not run: {rounds[0]['alone']}", file=sys.stderr)
        return 1
    alone = statistics.median(row["alone"][0] for row in rounds) / 1e6
    print(f"a training, steps of {alone:.1f} ms alone; sampling at {RATE_HZ} Hz where not said")
    print(f"otherwise; times as long as alone, medians of {len(rounds)} rounds, and the file;")
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'':24}{'step':>8}{'step CPU':>10}{'all CPU':>9}{'size':>13}{'to open':>12}")
    for name in rounds[0]:
        good = [row for row in rounds if not isinstance(row[name], str)]
        if good:
            show(name, [row[name] for row in good], [row["alone"] for row in good])
        else:
            print(f"{name:24}no figures: {rounds[0][name]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
