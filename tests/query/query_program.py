"""Runs queries and reports of the program under test."""

import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
PAGE = ROOT / "docs" / "query.md"

# Rich in different things: steps, idle causes, syncs, copies, memory, findings, two ranks, no GPU.
TRACES = {
    "healthy": [DATA / "A.healthy.good.pt.trace.json.gz"],
    "host_sync": [DATA / "A.host_sync.bad.pt.trace.json.gz"],
    "small_h2d": [DATA / "A.small_h2d.bad.pt.trace.json.gz"],
    "leak": [DATA / "A.leak.bad.pt.trace.json.gz"],
    "python_bound": [DATA / "A.python_bound.bad.pt.trace.json.gz"],
    "dataloader": [DATA / "A.dataloader.bad.pt.trace.json.gz"],
    "straggler": sorted(DATA.glob("D.straggler.bad.rank*.pt.trace.json.gz")),
}

# Names that are as odd as JSON allows; the fixture `odd` has events of them.
ODD = "a\u0000b\u202e\u0007,\"'\nline"
FORMULA = "=HYPERLINK(1)"


def start(*words, **more):
    env = {**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "xterm"}
    more = {"stdin": subprocess.DEVNULL, "timeout": 120, **more}
    if "input" in more:
        del more["stdin"]
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, env=env, **more)


def query(*words, **more):
    return start("query", *words, **more)


def document(paths, sql, *options):
    """The JSON document of a query that succeeds."""
    result = query(*options, "--json", *paths, sql)
    assert result.returncode == 0, (sql, result.stderr.decode(errors="replace"))
    return json.loads(result.stdout)


def rows(paths, sql, *options):
    """Its rows as dicts."""
    found = document(paths, sql, *options)
    assert len(set(found["columns"])) == len(found["columns"])
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def report(paths, *options):
    result = start("report", "--json", *options, *paths)
    assert result.returncode == 0, result.stderr.decode(errors="replace")
    return json.loads(result.stdout)


def ready_queries():
    """Title to SQL, from the page."""
    text = PAGE.read_text()
    part = text[text.index("## Queries to start from") : text.index("## Tables")]
    sections = re.split(r"^### ", part, flags=re.M)[1:]
    return {
        section.split("\n", 1)[0]: re.search(r"```sql\n(.*?)```", section, re.S)[1]
        for section in sections
    }


def documented_tables():
    """Table to [(column, type)], from the page."""
    text = PAGE.read_text()
    tables = {}
    for name, body in re.findall(r"^### ([a-z_]+)\n(.*?)(?=^### |\Z)", text, re.S | re.M):
        tables[name] = re.findall(r"^\| ([a-z_0-9]+) \| ([A-Z]+) \| .+ \|$", body, re.M)
    return tables
