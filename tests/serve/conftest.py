"""One server for the tests that leave it as it was."""

import sys

import pytest
from served_program import PROGRAM, ROOT, Served, write_trace

sys.path.insert(0, str(ROOT / "tests" / "support"))
from left_out import why_no_view  # noqa: E402


def pytest_collection_modifyitems(items):
    here = [item for item in items if item.path.parent.name == "serve"]
    why = why_no_view(PROGRAM) if here else None
    for item in here if why else []:
        item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "small.pt.trace.json"
    write_trace(path)
    with Served("--no-cache", path) as server:
        server.log_in()
        yield server
