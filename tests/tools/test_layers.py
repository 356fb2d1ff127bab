"""Goal: an include that the map does not allow is a fault. Method: small trees, one fault each."""

import layers
import pytest
from tree_fixture import make_tree

HEADERS = {
    "include/kscope/kscope.h": "",
    "wire/record.h": "#include <stdint.h>\n",
    "core/base/arena.h": "#include <string.h>\n#include <kscope/kscope.h>\n",
    "core/measure/quantile.h": "",
    "core/store/trace.h": '#include "base/arena.h"\n',
    "core/store/stats.def": "",
    "core/read/reader.h": '#include "store/trace.h"\n',
    "core/analyze/facts.h": '#include "store/trace.h"\n#include "measure/quantile.h"\n',
    "core/query/vtab.h": "",
    "core/advise/findings.h": "",
    "core/compare/gate.h": "",
    "core/show/table.h": "",
    "launch/launch.h": "",
    "serve/server.h": "",
    "capture/ring.h": "",
}


def faults_of(tmp_path, **extra):
    files = dict(HEADERS)
    files.update({path.replace("__", "/"): text for path, text in extra.items()})
    return layers.check_tree(make_tree(tmp_path, files))


def faults_with(tmp_path, path, text):
    return layers.check_tree(make_tree(tmp_path, {**HEADERS, path: text}))


def test_clean_tree_has_no_fault(tmp_path):
    assert faults_of(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("core/base/text.c", '"store/trace.h"'),
        ("core/base/text.c", '"wire/record.h"'),
        ("core/measure/mean.c", '"store/trace.h"'),
        ("core/store/seal.c", '"read/reader.h"'),
        ("core/store/seal.c", '"analyze/facts.h"'),
        ("core/store/seal.c", '"wire/record.h"'),
        ("core/read/kineto.c", '"analyze/facts.h"'),
        ("core/read/kineto.c", '"show/table.h"'),
        ("core/read/kineto.c", '"measure/quantile.h"'),
        ("core/analyze/idle.c", '"read/reader.h"'),
        ("core/analyze/idle.c", '"advise/findings.h"'),
        ("core/analyze/idle.c", '"wire/record.h"'),
        ("core/query/sql.c", '"show/table.h"'),
        ("core/advise/rule_x.c", '"read/reader.h"'),
        ("core/advise/rule_x.c", '"show/table.h"'),
        ("core/advise/rule_x.c", '"compare/gate.h"'),
        ("core/compare/diff.c", '"read/reader.h"'),
        ("core/show/json.c", '"read/reader.h"'),
        ("core/show/json.c", '"measure/quantile.h"'),
        ("cli/main.c", '"base/arena.h"'),
        ("cli/main.c", '"show/table.h"'),
        ("launch/run.c", '"analyze/facts.h"'),
        ("serve/http.c", '"store/trace.h"'),
        ("capture/ring.c", '"base/arena.h"'),
        ("capture/ring.c", "<stdio.h>"),
        ("capture/ring.c", "<kscope/kscope.h>"),
        ("wire/other.h", "<string.h>"),
        ("wire/other.h", '"base/arena.h"'),
        ("include/kscope/other.h", '"base/arena.h"'),
        ("python/ext/report.c", '"store/trace.h"'),
    ],
)
def test_forbidden_edge_is_a_fault(tmp_path, path, include):
    (fault,) = faults_with(tmp_path, path, f"/* Why. */\n#include {include}\n")
    assert (fault.path, fault.line) == (path, 2)
    assert "may not include" in fault.text


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("core/read/kineto.c", '"wire/record.h"'),
        ("core/read/kineto.c", '"store/stats.def"'),
        ("core/analyze/idle.c", "<kscope/kscope.h>"),
        ("core/advise/rule_x.c", '"analyze/facts.h"'),
        ("core/show/json.c", '"compare/gate.h"'),
        ("core/report.c", '"read/reader.h"'),
        ("cli/main.c", "<kscope/kscope.h>"),
        ("cli/main.c", "<stdio.h>"),
        ("capture/ring.c", '"wire/record.h"'),
        ("tests/unit/test_x.c", '"store/trace.h"'),
        ("fuzz/fuzz_x.c", '"read/reader.h"'),
        ("examples/x.c", '"nothing/here.h"'),
    ],
)
def test_allowed_edge_is_silent(tmp_path, path, include):
    assert faults_with(tmp_path, path, f"#include {include}\n") == []


def test_unknown_header_is_a_fault(tmp_path):
    (fault,) = faults_with(tmp_path, "core/store/x.c", '#include "store/gone.h"\n')
    assert "nothing in the tree" in fault.text


def test_climbing_path_is_a_fault(tmp_path):
    (fault,) = faults_with(tmp_path, "core/store/x.c", '#include "../read/reader.h"\n')
    assert "climbing" in fault.text


def test_new_folder_must_enter_the_table(tmp_path):
    (fault,) = faults_with(tmp_path, "core/extra/x.c", "int x;\n")
    assert "not in the table" in fault.text


def test_torch_is_imported_in_its_own_folder_only(tmp_path):
    files = {
        "python/kinetoscope/torch/hooks.py": "import torch\n",
        "python/kinetoscope/hf/trainer.py": "import torch\nfrom transformers import Trainer\n",
        "python/kinetoscope/clock.py": "import time\n\nimport torch.nn\n",
    }
    (fault,) = layers.check_tree(make_tree(tmp_path, files))
    assert (fault.path, fault.line) == ("python/kinetoscope/clock.py", 3)


def test_the_map_has_no_cycle():
    done = set()

    def visit(layer, above):
        assert layer not in above, f"cycle through {layer}"
        if layer not in done:
            for below in layers.ALLOWED[layer]:
                visit(below, above | {layer})
            done.add(layer)

    for layer in layers.ALLOWED:
        visit(layer, frozenset())


def test_exit_status(tmp_path, capsys):
    make_tree(tmp_path, {**HEADERS, "cli/main.c": '#include "base/arena.h"\n'})
    assert layers.main([str(tmp_path)]) == 1
    assert "cli/main.c:1: [layers]" in capsys.readouterr().out
