"""Goal: while `kscope run` records into a folder, the page of the folder grows with it. Method: a
program that runs for some seconds, and the versions that are served meanwhile."""

import os
import subprocess
import sys
import time

from served_program import PROGRAM, ROOT, Served, wait_for

SECONDS = 5
SOURCE = f"""
import time

def inner():
    time.sleep(0.002)

def outer():
    inner()

end = time.monotonic() + {SECONDS}
while time.monotonic() < end:
    outer()
"""


def calls_of(server, version):
    """How often `inner` was called so far; 0 when that is not known yet."""
    report = server.ask(f"/api/report?v={version}")
    rows = report.json().get("functions", []) if report.status == 200 else []
    return max((row["calls"] for row in rows if row["name"].endswith("inner")), default=0)


def test_the_page_grows_with_a_run(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SOURCE)
    out = tmp_path / "out"
    env = {key: value for key, value in os.environ.items() if not key.startswith("KSCOPE_")}
    env |= {"KSCOPE_PYTHON": sys.executable, "KSCOPE_PYTHON_DIR": str(ROOT / "python")}
    command = [PROGRAM, "run", "--record", "functions", "--out", str(out), str(program)]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE) as run:
        assert wait_for(lambda: list(out.glob("*.ksrec")))
        time.sleep(0.5)
        with Served("--no-cache", out) as server:
            server.log_in()
            seen = {}
            while run.poll() is None:
                version = server.version()
                if version not in seen:
                    seen[version] = calls_of(server, version)
                time.sleep(0.2)
            run.stderr.read()
            assert run.returncode == 0
            assert len(seen) >= 2, seen
            counts = [seen[version] for version in sorted(seen)]
            assert counts == sorted(counts)
            assert counts[-1] > counts[0]
            assert wait_for(lambda: calls_of(server, server.version()) > counts[-1] * 0.9)
