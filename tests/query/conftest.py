"""A trace whose names are as odd as JSON allows."""

import json

import pytest
from query_program import FORMULA, ODD


@pytest.fixture
def odd(tmp_path):
    path = tmp_path / "odd.json"
    names = [ODD, FORMULA, "", "aten::mm", "-5"]
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": 100 + index,
            "dur": 1,
            "args": {"External id": index + 1},
        }
        for index, name in enumerate(names)
    ]
    text = json.dumps({"traceEvents": events}).replace("aten::mm", "aten\\u003a:mm")
    path.write_bytes(text.encode().replace(b"HYPERLINK", b"HYPER\xffLINK"))
    return path
