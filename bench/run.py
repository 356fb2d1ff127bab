#!/usr/bin/env python3
"""Times `kscope report` as a whole process, against its peers or against another commit.

    bench/run.py [--full] [--base REV] [--runs N] [--size-mb MB] [--large-mb MB]
                 [--save FILE] [--tiny]

Inputs are grown from tests/data by tools/gen_trace.py (seed 1) into build/bench/ once: of --size-mb
for all peers, and of 500 MB in each style of writer for simdjson alone. Each round runs every
program in turn, so that a machine that gets slower slows all of them; the page cache is warm.
`read-1` reads and seals on one thread (kscope info), `report-2` reports on two and fills an empty
cache, `again` finds it full, `gz-2` is report-2 of the compressed input; all others use none.
Peers: simdjson (on-demand, a sum of dur by (cat, name); the limits of read-1 and report-2 are
against it), Python's json.load and a sum over it, and HolisticTraceAnalysis (in .venv-bench; once,
or in each round and of 500 MB as well with --full). Peak memory is ru_maxrss, which a child
inherits from this process: so this one loads nothing large. `--base REV` builds that commit in a
worktree and compares with it instead. Exit status 1 when a limit is missed; `--tiny` only shows
that all of this works.
"""

import argparse
import hashlib
import itertools
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "bench"
DATA = ROOT / "tests" / "data"
GENERATOR = ROOT / "tools" / "gen_trace.py"
HTA_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
RECORDED = ROOT / "tests" / "oracle" / "hta_recorded.json"
SOURCES = ("A.optimizer.bad.pt.trace.json.xz", "A.healthy.good.pt.trace.json.gz")
TINY_SOURCE = "A.recompiles.good.pt.trace.json.gz"
STYLES = ("classic", "modern", "compact")
LARGE_MB = 500
HTA_CHECKED = 4  # traces whose figures are repeated; --full: all
# How many times faster than a peer we promise to be.
AT_LEAST = {"hta": 30, "python": 20}
AT_LEAST_LARGE = {"hta": 150}
# How much of simdjson's time reading on one thread, and a report on two, may take, of inputs of
# LARGE_MB: in a fifth of that, what starts and ends a process and who ran before weigh as much.
AT_MOST = {"read-1": 0.6, "report-2": 1.0}
# How much of the time of report-2 it may take when the input is compressed.
GZ_AT_MOST = 1.6
# Seconds that a report of a file which was reported on before may take, and of its bytes the share
# that a report may have in memory.
AGAIN_SECONDS = 0.08
PEAK_SHARE = 0.5

FORGETFUL = ("report-2", "gz-2")  # their cache is empty

os.environ["XDG_CACHE_HOME"] = os.devnull  # in all benches: without --cache there is none


def program_under_test():
    return os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))


# ------------------------------------------------------------------ inputs


def digest(*paths):
    h = hashlib.sha256()
    for path in paths:
        h.update(path.read_bytes())
    return h.hexdigest()[:12]


def grown(source, size_mb, folder, style=STYLES[0]):
    """Path of the input grown from `source`, made when missing."""
    name = source.split(".pt.")[0]
    out = folder / f"{name}.{size_mb:g}MB.{style}.{digest(GENERATOR, DATA / source)}.json"
    if not out.exists():
        print(f"making {out.name}", file=sys.stderr)
        part = out.with_suffix(".part")
        command = [sys.executable, str(GENERATOR), "--source", str(DATA / source)]
        command += ["--out", str(part), "--size-mb", str(size_mb), "--seed", "1"]
        command += ["--style", style]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        part.rename(out)
    return out


def compressed(path):
    """Path of the input as gzip, made when missing."""
    out = path.with_suffix(".json.gz")
    if not out.exists():
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            subprocess.run(["gzip", "-6", "-c", str(path)], check=True, stdout=file)
        part.rename(out)
    return out


# ------------------------------------------------------------------ measuring


def timed(command, forgets=False):
    """(seconds, processor seconds, peak bytes) of one process; `forgets`: its cache is empty."""
    if forgets:
        shutil.rmtree(command[command.index("--cache") + 1], ignore_errors=True)
    begin = time.perf_counter()
    with open(os.devnull, "wb") as null:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=null)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"bench: exit {process.returncode}: {' '.join(command)}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def alternate(commands, rounds):
    """{name: [(seconds, processor seconds, peak)]}; `rounds` says how often each takes part."""
    out = {name: [] for name in commands}
    for index in range(max(rounds.values())):
        for name, command in commands.items():
            if index < rounds[name]:
                out[name].append(timed(command, forgets=name in FORGETFUL))
    return out


def summary(runs, size):
    seconds = [s for s, _, _ in runs]
    median = statistics.median(seconds)
    return {
        "median_s": median,
        "min_s": min(seconds),
        "cpu_s": statistics.median(c for _, c, _ in runs),
        "runs": len(runs),
        "bytes_per_s": size / median,
        "peak_bytes": max(p for _, _, p in runs),
    }


def warm(path):
    with open(path, "rb") as f:
        while f.read(1 << 20):
            pass


def measure(path, commands, rounds):
    warm(path)
    size = path.stat().st_size
    runs = alternate(commands, rounds)
    return {"size": size, "programs": {n: summary(r, size) for n, r in runs.items()}}


def build_simdjson(folder):
    """Path of the peer, or None where its library or a compiler is missing."""
    source = ROOT / "bench" / "peer_simdjson.cc"
    program = folder / f"peer_simdjson.{digest(source)}"
    if not program.exists():
        compiler = shutil.which("g++") or shutil.which("clang++")
        if not compiler:
            return None
        command = [compiler, "-O3", "-std=c++17", "-o", str(program), str(source), "-lsimdjson"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
    return str(program)


def our_commands(path, options):
    """Those that the limits against simdjson are about, and it, where it can be built."""
    kscope = program_under_test()
    commands = {"read-1": [kscope, "info", "--json", "--threads", "1", str(path)]}
    report = [kscope, "report", "--json", "--threads", "2", "--cache"]
    commands["report-2"] = [*report, str(options.folder / "cache-empty"), str(path)]
    commands["again"] = [*report, str(options.folder / "cache-full"), str(path)]
    timed(commands["again"])
    simdjson = build_simdjson(options.folder)
    if simdjson:
        commands["simdjson"] = [simdjson, str(path)]
    return commands


def peers(path, options):
    """Commands and rounds of everything that reads this input."""
    commands = {"kscope": [program_under_test(), "report", "--json", str(path)]}
    commands |= our_commands(path, options)
    commands["python"] = [sys.executable, str(ROOT / "bench" / "peer_json.py"), str(path)]
    rounds = dict.fromkeys(commands, options.runs)
    add_hta(path, commands, rounds, options)
    return commands, rounds


def add_hta(path, commands, rounds, options):
    if not options.tiny and HTA_PYTHON.exists():
        commands["hta"] = [str(HTA_PYTHON), str(ROOT / "bench" / "peer_hta.py"), str(path)]
        rounds["hta"] = options.runs if options.full else 1


def large_peers(path, style, options):
    commands = our_commands(path, options)
    rounds = dict.fromkeys(commands, options.runs)
    if style == STYLES[0]:
        gz = [program_under_test(), "report", "--json", "--threads", "2", "--cache"]
        commands["gz-2"] = [*gz, str(options.folder / "cache-empty-gz"), str(compressed(path))]
        rounds["gz-2"] = options.runs
    if style == STYLES[0] and options.full:
        add_hta(path, commands, rounds, options)
    return commands, rounds


# ------------------------------------------------------------------ another commit


def build_base(revision):
    """Program of that commit, built in a worktree of its own."""
    git = ["git", "-C", str(ROOT)]
    sha = subprocess.run(
        [*git, "rev-parse", "--short=12", f"{revision}^{{commit}}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    tree = WORK / f"base-{sha}"
    program = tree / "build" / "kscope"
    if not program.exists():
        subprocess.run([*git, "worktree", "prune"], check=True)
        if not tree.exists():
            subprocess.run([*git, "worktree", "add", "--detach", str(tree), sha], check=True)
        setup = ["meson", "setup", str(tree / "build"), str(tree), "-Dbuildtype=release"]
        subprocess.run(setup, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["ninja", "-C", str(tree / "build"), "--quiet", "kscope"], check=True)
    return str(program)


def both_commits(path, options, base):
    commands = {
        "base": [base, "report", "--json", str(path)],
        "change": [program_under_test(), "report", "--json", str(path)],
    }
    return commands, dict.fromkeys(commands, options.runs)


# ------------------------------------------------------------------ showing


def machine():
    model = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def show(name, result):
    programs = result["programs"]
    ours = programs.get("kscope") or programs.get("base") or programs["report-2"]
    print(f"\n{name}: {result['size'] / 1e6:.0f} MB")
    head = f"  {'program':8} {'median':>9} {'min':>9} {'cpu':>9} {'runs':>4} {'MB/s':>8}"
    print(f"{head} {'peak MB':>8}  ratio")
    for program, row in programs.items():
        print(
            f"  {program:8} {row['median_s']:8.3f}s {row['min_s']:8.3f}s {row['cpu_s']:8.3f}s"
            f" {row['runs']:4}"
            f" {row['bytes_per_s'] / 1e6:8.1f} {row['peak_bytes'] / 1e6:8.1f}"
            f" {row['median_s'] / ours['median_s']:6.2f}"
        )


def missed(name, result, at_least):
    """Sentences about limits that do not hold; `at_least`: how often faster than a peer."""
    programs = result["programs"]
    if "base" in programs:
        return []
    ours = programs.get("kscope", programs["report-2"])
    out = []
    for peer, factor in at_least.items():
        if peer in programs and programs[peer]["median_s"] < factor * ours["median_s"]:
            out.append(f"{name}: less than {factor} times faster than {peer}")
    for program, share in AT_MOST.items():
        if "simdjson" in programs and result["size"] >= LARGE_MB * 1e6:
            ratio = programs[program]["median_s"] / programs["simdjson"]["median_s"]
            if ratio > share:
                out.append(f"{name}: {program} takes {ratio:.2f} of simdjson, not {share}")
    if ours["peak_bytes"] > PEAK_SHARE * result["size"]:
        out.append(f"{name}: peak memory is more than {PEAK_SHARE} of the file")
    if "gz-2" in programs and programs["gz-2"]["median_s"] > GZ_AT_MOST * ours["median_s"]:
        out.append(f"{name}: compressed it takes more than {GZ_AT_MOST} times as long")
    if programs["again"]["median_s"] > AGAIN_SECONDS:
        out.append(f"{name}: a second report takes more than {AGAIN_SECONDS} s")
    return out


def hta_figures(is_full):
    """A sentence for each trace of which HTA no longer says what the tests compare with."""
    recorded = json.loads(RECORDED.read_text())["traces"]
    names = sorted(recorded)[: None if is_full else HTA_CHECKED]
    probe = [str(HTA_PYTHON), str(ROOT / "bench" / "hta_probe.py")]
    done = subprocess.run(
        probe + [str(DATA / n) for n in names], check=True, stdout=subprocess.PIPE
    )
    live = json.loads(done.stdout)["traces"]
    wrong = [
        f"{n}: HTA no longer gives the recorded figures" for n in names if live[n] != recorded[n]
    ]
    print(f"\nHTA's own figures of {len(names)} traces: {len(names) - len(wrong)} as recorded")
    return wrong


def hta_figures_converted():
    """A sentence when HTA reads something else from a trace that `kscope convert` made smaller."""
    recorded = json.loads(RECORDED.read_text())["traces"]
    name = sorted(recorded)[0]
    smaller = WORK / "converted" / name
    smaller.parent.mkdir(parents=True, exist_ok=True)
    words = ["convert", "--drop", "python_function", "--drop-args", "-o"]
    subprocess.run([program_under_test(), *words, str(smaller), str(DATA / name)], check=True)
    probe = [str(HTA_PYTHON), str(ROOT / "bench" / "hta_probe.py"), str(smaller)]
    done = subprocess.run(probe, check=True, stdout=subprocess.PIPE)
    live = json.loads(done.stdout)["traces"][name]
    is_same = live == recorded[name]
    print(f"HTA's figures of the converted {name}: {'the same' if is_same else 'others'}")
    return [] if is_same else [f"{name}: HTA reads other figures from the converted trace"]


def parse_options(arguments):
    parser = argparse.ArgumentParser(description="Times kscope report.")
    parser.add_argument("--full", action="store_true", help="HTA in each round, and of 500 MB")
    parser.add_argument("--base", metavar="REV", help="compare with this commit")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size-mb", type=float, default=100)
    parser.add_argument("--large-mb", type=float, default=LARGE_MB)
    parser.add_argument("--save", type=pathlib.Path, help="write all figures as JSON")
    parser.add_argument("--tiny", action="store_true", help="small input, one run, no limits")
    parser.add_argument("--folder", type=pathlib.Path, default=WORK, help="where inputs are kept")
    options = parser.parse_args(arguments)
    if options.tiny:
        options.runs, options.size_mb, options.large_mb = 1, 0.3, 0.3
    return options


def main(arguments):
    options = parse_options(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    base = build_base(options.base) if options.base else None
    facts = machine()
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    results, wrong = {}, []

    def try_input(name, path, commands, rounds, at_least):
        results[name] = measure(path, commands, rounds)
        show(name, results[name])
        wrong.extend(missed(name, results[name], at_least))

    sources = (TINY_SOURCE,) if options.tiny else SOURCES
    for source in sources:
        path = grown(source, options.size_mb, options.folder)
        commands, rounds = both_commits(path, options, base) if base else peers(path, options)
        try_input(source.split(".pt.")[0], path, commands, rounds, AT_LEAST)
    for source, style in [] if base else itertools.product(sources, STYLES):
        path = grown(source, options.large_mb, options.folder, style)
        name = f"{source.split('.pt.')[0]}, {style}"
        try_input(name, path, *large_peers(path, style, options), AT_LEAST_LARGE)
    if not (options.tiny or base):
        if HTA_PYTHON.exists():
            wrong += hta_figures(options.full)
            wrong += hta_figures_converted()
        else:
            wrong.append("HTA is not there: tools/setup.sh bench installs it")
    if options.save:
        options.save.write_text(json.dumps({"machine": facts, "results": results}, indent=1) + "\n")
    for sentence in [] if options.tiny else wrong:
        print(f"missed: {sentence}")
    return 1 if wrong and not options.tiny else 0


if __name__ == "__main__":
    if shutil.which("meson") is None and "--base" in sys.argv:
        sys.exit("bench: meson is needed to build another commit")
    sys.exit(main(sys.argv[1:]))
