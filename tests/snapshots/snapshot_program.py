"""Starts the program under test on memory snapshots, and makes such snapshots."""

import importlib.util
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
REAL = sorted(DATA.glob("*.snapshot.pickle.gz"))


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gen_snapshot = load(ROOT / "tools" / "gen_snapshot.py", "gen_snapshot")


def start(*words, **more):
    env = {**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "xterm"}
    more = {"stdin": subprocess.DEVNULL, "timeout": 120, **more}
    if "input" in more:
        del more["stdin"]
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, env=env, **more)


def refuse(name):
    raise ValueError(f"{name} is not JSON")


def document(*words, **more):
    result = start("memory", "--json", *words, **more)
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout, parse_constant=refuse)


def read(snapshot, folder, protocol=5, *words):
    """What the program says of a snapshot in memory."""
    path = folder / "snapshot.pickle"
    path.write_bytes(gen_snapshot.dump(snapshot, protocol))
    return document(*words, path)["snapshots"][0]
