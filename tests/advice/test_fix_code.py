"""Goal: the code of every fix is Python that torch can run. Method: all that the C tests of rules
render, all that reports on the stored and on drawn recordings hold, and what the pages show, runs
in a small program on the CPU (fix_code.py).
"""

import random
import re

import planted_trace
import pytest
from rule_texts import ROOT, report_of, rule_ids, unpacked

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

import fix_code  # noqa: E402
from test_promises import RECORDINGS, write  # noqa: E402

# Nothing can be written that fits: what runs between operators, or in one of them, is the program's
# own.
WITHOUT_CODE = {"host.python_gap", "host.slow_operator"}


@pytest.fixture(scope="module", autouse=True)
def one_rank(tmp_path_factory):
    store = tmp_path_factory.mktemp("ranks") / "store"
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=0, world_size=1
    )
    threads = torch.get_num_threads()
    yield
    torch.distributed.destroy_process_group()
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    torch._logging.set_logs()


def codes_of(doc):
    return {(f["id"], f["fix"]["code"]) for f in doc["findings"] if f["fix"]["code"]}


def test_code_of_every_rule_runs(cases, tmp_path):
    codes = {(id, code) for _, id, code in cases if code}
    assert {id for id, _ in codes} >= set(rule_ids()) - WITHOUT_CODE
    assert fix_code.failures(codes, tmp_path) == []


def test_code_in_reports_runs(tmp_path):
    codes = set()
    for paths in RECORDINGS.values():
        with unpacked(paths) as plain:
            codes |= codes_of(report_of(plain))
    rng = random.Random(7)
    for id in planted_trace.IDS:
        for _ in range(3):
            codes |= codes_of(report_of(write(tmp_path, planted_trace.draw(rng, {id}))))
    assert len(codes) > 20
    assert fix_code.failures(codes, tmp_path) == []


def test_code_of_the_pages_runs(tmp_path):
    codes = set()
    for page in sorted((ROOT / "docs" / "rules").glob("*.md")):
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
            codes.add((page.stem, block))
    assert codes
    assert fix_code.failures(codes, tmp_path) == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("DataLoader(batch_size=4, dataset, ...)", "SyntaxError"),
        ("PYTHONHASHSEED=1 python train.py", "SyntaxError"),
        ("# nothing", "nothing but comments"),
        ("split_by_tokens(samples)", "split_by_tokens"),
        ("torch.optim.Lion(model.parameters(), ..., foreach=True)", "Lion"),
        ("torch.optim.SGD(model.parameters(), ..., fussed=True)", "fussed"),
        ("from torch.nn import no_such_module", "no_such_module"),
    ],
)
def test_wrong_code_is_noticed(code, words, tmp_path):
    assert words in "".join(fix_code.failures({("x", code)}, tmp_path))


def test_arguments_of_the_program_stay(tmp_path):
    code = "optimizer = torch.optim.AdamW(model.parameters(), ..., fused=True)"
    assert fix_code.run(code, tmp_path)["optimizer"].defaults["fused"]
