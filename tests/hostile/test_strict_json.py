"""Goal: what --strict accepts is JSON.

Method: good documents with one or two bytes changed, added or taken away, judged by Python's own
parser (which is told to refuse NaN and its like).
"""

import json
import os
import random
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
KSCOPE = os.environ.get("KSCOPE_BIN", str(FOLDER.parents[1] / "build" / "kscope"))
SEEDS = ["ok_minimal", "key_order_args_before_ph", "string_numbers", "metadata_after_events"]
BYTES = b'{}[]",:0123456789.eE+-truefalsn \n\t\\u\x00\x01\x7f\x80\xc3\xa9'


def changed(rng, document):
    document = bytearray(document)
    for _ in range(rng.choice([1, 1, 2])):
        at = rng.randrange(len(document))
        kind = rng.randrange(3)
        if kind == 0:
            document[at] = rng.choice(BYTES)
        elif kind == 1:
            document.insert(at, rng.choice(BYTES))
        else:
            del document[at]
    return bytes(document)


def refuse_constant(word):
    raise ValueError(word)


def is_json(document):
    try:
        json.loads(document.decode("utf-8"), parse_constant=refuse_constant)
    except ValueError:
        return False
    return True


def test_accepted_is_json():
    rng = random.Random(1)
    seeds = [(FOLDER / f"{name}.json").read_bytes() for name in SEEDS]
    accepted = 0
    for _ in range(300):
        document = changed(rng, rng.choice(seeds))
        run = subprocess.run(
            [KSCOPE, "report", "--json", "--strict", "-"],
            input=document,
            capture_output=True,
            timeout=60,
        )
        assert run.returncode in (0, 3), run.stderr
        if run.returncode == 0:
            assert is_json(document), document
            accepted += 1
    assert accepted > 20
