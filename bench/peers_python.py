"""The stack sampler against py-spy, austin, scalene and viztracer: a training runs under each in
turn. How much longer its steps are, the CPU time of all processes, the size of the file, and how
long it takes to read the file.

Use: peers_python.py [--rounds N] [--steps N] [--peers FOLDER] [--tiny]

The peers go into FOLDER (.venv-peers), an environment made from requirements-bench-python.txt; a
peer that does not run here is named, with its own words.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "capture"))

import build_sampler  # noqa: E402
import sampled_stacks  # noqa: E402

PROGRAM = str(ROOT / "bench" / "training_program.py")
RATE_HZ = 1000
SECONDS_MAX = 600  # of one run


def make_environment(folder):
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        wanted = str(ROOT / "requirements-bench-python.txt")
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", wanted]
        subprocess.run(pip, check=True)


def commands(peers, module, out, steps):
    """{name: (command, does it need the peers' packages)}; each writes below `out`."""
    program = [PROGRAM, str(steps)]
    ours = [str(ROOT / "bench" / "sampled_program.py"), module, out]
    spy = [str(peers / "bin" / "py-spy"), "record", "-r", str(RATE_HZ), "-f", "speedscope"]
    spy += ["-o", f"{out}/spy.json"]
    austin = [str(peers / "bin" / "austin"), "-i", f"{1000 // RATE_HZ}ms", "-o", f"{out}/austin"]
    python = [sys.executable]
    return {
        "plain": (python + program, False),
        "kscope, 100 Hz": (python + ours + ["100", *program], False),
        "kscope, 1000 Hz": (python + ours + [str(RATE_HZ), *program], False),
        "py-spy": (spy + ["--"] + python + program, False),
        "py-spy, nonblocking": (spy + ["--nonblocking", "--"] + python + program, False),
        "austin": (austin + python + program, False),
        "scalene": (
            [*python, "-m", "scalene", "run", "--cpu-only", "-o", f"{out}/s.json"]
            + [PROGRAM, "---", str(steps)],
            True,
        ),
        "viztracer": (
            [*python, "-m", "viztracer", "--quiet", "-o", f"{out}/v.json", "--", *program],
            True,
        ),
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
    """Reading the whole file; of text formats by the json module, which flatters none."""
    begin = time.perf_counter()
    if path.suffix == ".ksrec":
        sampled_stacks.read(path).weights()
    elif path.suffix == ".json":
        json.loads(path.read_text())
    else:
        path.read_bytes()
    return time.perf_counter() - begin


def run_once(command, needs_packages, packages, out):
    """(median step in ns, CPU seconds, bytes, seconds to read), or what went wrong."""
    env = dict(os.environ, PYTHONPATH=packages) if needs_packages else os.environ
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=env, cwd=out, timeout=SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return f"took more than {SECONDS_MAX} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    times = times_of(done.stdout)
    if done.returncode != 0 or not times:
        words = (done.stderr or done.stdout).strip().splitlines()
        return words[0] if words else f"status {done.returncode}"
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    files = [path for path in pathlib.Path(out).iterdir() if path.is_file()]
    size = sum(path.stat().st_blocks * 512 for path in files)
    return statistics.median(times), cpu, size, sum(map(open_seconds, files))


def measure(options, module, peers):
    found, faults = {}, {}
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = str(peers / "lib" / version / "site-packages")
    for _ in range(options.rounds):
        for name in commands(peers, module, "", options.steps):
            with tempfile.TemporaryDirectory() as out:
                command, needs = commands(peers, module, out, options.steps)[name]
                try:
                    row = run_once(command, needs, packages, out)
                except OSError as error:
                    row = str(error)
            print(f"{name}: {row}", file=sys.stderr, flush=True)
            if isinstance(row, str):
                faults[name] = row
            else:
                found.setdefault(name, []).append(row)
    return found, faults


def main(arguments):
    parser = argparse.ArgumentParser(description="Compares Python profilers on a training.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--peers", default=str(ROOT / ".venv-peers"))
    parser.add_argument("--tiny", action="store_true", help="one round, few steps, peers not made")
    options = parser.parse_args(arguments)
    peers = pathlib.Path(options.peers).resolve()
    if options.tiny:
        options.rounds, options.steps = 1, 2
    else:
        make_environment(peers)
    with tempfile.TemporaryDirectory() as folder:
        module = str(build_sampler.build(sys.executable, folder))
        found, faults = measure(options, module, peers)
    plain = statistics.median(row[0] for row in found["plain"])
    print(f"{'':20} {'step':>10} {'longer':>9} {'CPU':>8} {'file':>10} {'to read':>9}")
    for name, rows in found.items():
        step, cpu, size, seconds = (statistics.median(column) for column in zip(*rows, strict=True))
        print(
            f"{name:20} {step / 1e6:7.2f} ms {100 * (step / plain - 1):7.1f} % {cpu:6.2f} s "
            f"{size / 1024:7.0f} KB {1e3 * seconds:6.1f} ms"
        )
    for name, words in faults.items():
        print(f"{name}: no figures: {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
