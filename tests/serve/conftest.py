"""One server for the tests that leave it as it was."""

import pytest
from served_program import PROGRAM, Served, write_trace


def why_left_out():
    import subprocess

    line = subprocess.run([PROGRAM, "doctor"], capture_output=True, text=True).stdout
    view = next((each for each in line.split("\n") if " view " in each), "")
    return None if view.startswith("ok") else f"this build cannot serve: {view}"


def pytest_collection_modifyitems(items):
    here = [item for item in items if item.path.parent.name == "serve"]
    why = why_left_out() if here else None
    for item in here if why else []:
        item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "small.pt.trace.json"
    write_trace(path)
    with Served("--no-cache", path) as server:
        server.log_in()
        yield server
