"""The report page in a browser. Goal: every view of real and of broken inputs works, is quiet, and
says the numbers of the JSON. Method: `kscope report --html` writes the pages, page.test.mjs looks
at them in Chromium, and each of its tests counts as one here."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from left_out import why_no_page, why_no_view  # noqa: E402

CHECKS = pathlib.Path(__file__).with_name("page.test.mjs")
DATA = ROOT / "tests" / "data"
PROGRAM = pathlib.Path(os.environ.get("KSCOPE_BIN", ROOT / "build" / "kscope")).resolve()
BUNDLE = PROGRAM.parent / "web"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")

INPUTS = {
    "gpu": ["A.host_sync.bad.pt.trace.json.gz"],
    "ranks": ["D.straggler.bad.rank0.pt.trace.json.gz", "D.straggler.bad.rank1.pt.trace.json.gz"],
    "memory": ["A.leak.bad.pt.trace.json.gz"],
}

PAIR = ("bad", "good")

NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
ALL_PAGES = re.compile(r"const ALL_PAGES = \[(.*?)\]", re.S)
THEMES = re.compile(r"const THEMES = \[(.*?)\]", re.S)
NAME = re.compile(r"test\((['`])(.*?)\1", re.S)

HOSTILE_NAMES = [
    '<img src=x onerror="window.hit=1">',
    "</script><script>window.hit=1</script>",
    "<b>bold</b>",
    "<!-- -->",
    "javascript:window.hit=1",
    "a\u2028b\u2029c",
    "__proto__",
    "constructor",
    "\u202egnp.exe",
]


def listed(pattern, text):
    return re.findall(r"'([^']*)'", pattern.search(text).group(1))


def names_of_checks():
    """Names of the tests of page.test.mjs, those in loops once for each turn."""
    text = CHECKS.read_text(encoding="utf-8")
    names = []
    for _, name in NAME.findall(text):
        if "${name}" in name:
            names += [name.replace("${name}", page) for page in listed(ALL_PAGES, text)]
        elif "${theme}" in name:
            names += [name.replace("${theme}", theme) for theme in listed(THEMES, text)]
        else:
            names.append(name)
    return names


def event(name, start_us, dur_us, thread=1, category="cpu_op"):
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": thread,
        "ts": start_us,
        "dur": dur_us,
        "args": {},
    }


def cpu_trace():
    """Three steps on the CPU, of one operator inside another."""
    events = []
    for step in range(3):
        start = 1000.0 + step * 1000
        events.append(event(f"ProfilerStep#{step}", start, 990, category="user_annotation"))
        events.append(event("aten::linear", start + 10, 800))
        events.append(event("aten::addmm", start + 20, 700))
    return events


def hostile_trace():
    events = cpu_trace()
    for i, name in enumerate(HOSTILE_NAMES):
        events.append(event(name, 1000 + 20 * i, 15, thread=2))
        events.append(event(name, 1000 + 20 * i, 15, thread=3, category="user_annotation"))
    return events


def write_inputs(folder):
    """The inputs that are made here, as paths by the name of their page."""
    inputs = {name: [str(DATA / file) for file in files] for name, files in INPUTS.items()}
    for name, events in (("cpu", cpu_trace()), ("hostile", hostile_trace()), ("empty", [])):
        path = folder / f"{name}.pt.trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
        inputs[name] = [str(path)]
    whole = (folder / "cpu.pt.trace.json").read_text()
    damaged = folder / "damaged.pt.trace.json"
    damaged.write_text(whole[: len(whole) * 2 // 3])
    inputs["damaged"] = [str(damaged)]
    return inputs


def write_pages(folder):
    for name, paths in write_inputs(folder).items():
        for option, end in ((["--json"], "json"), ([], "txt")):
            run = subprocess.run(
                [PROGRAM, "report", *option, *paths], capture_output=True, text=True, check=True
            )
            (folder / f"{name}.{end}").write_text(run.stdout, encoding="utf-8")
        page = folder / f"{name}.html"
        command = [PROGRAM, "report", "--html", str(page), *paths]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def write_comparisons(folder):
    """Pages of two runs, and what `kscope diff --json` says of the first pair."""
    pairs = {
        "compared": [str(DATA / f"A.cpu_fallback.{run}.pt.trace.json.gz") for run in PAIR],
        "hostile_compared": [str(folder / f"{run}.pt.trace.json") for run in ("cpu", "hostile")],
    }
    for name, paths in pairs.items():
        command = [PROGRAM, "diff", "--json", "--html", str(folder / f"{name}.html"), *paths]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        (folder / f"{name}.diff.json").write_text(run.stdout, encoding="utf-8")


def missing_parts(root, bundle, chromium):
    """What set-up and build should have made, where they make a page, and is not there."""
    parts = {
        "web/node_modules: run tools/setup.sh test": root / "web/node_modules/playwright-core",
        "the bundle: run make build; configure anew if Node came later": bundle / "page.js",
        "Chromium: install it, or name it by CHROMIUM": pathlib.Path(chromium or root / "none"),
    }
    return [text for text, path in parts.items() if not path.exists()]


def read_results(text):
    """(passed, text) by name. Node writes messages as they are: XML may not hold their colours."""
    found = {}
    for case in xml.etree.ElementTree.fromstring(NO_XML.sub("", text)).iter("testcase"):
        failure = case.find("failure")
        found[case.get("name")] = (failure is None, "" if failure is None else failure.text)
    return found


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """(passed, text) of each test of page.test.mjs."""
    missing = missing_parts(ROOT, BUNDLE, CHROMIUM)
    if missing:
        pytest.fail("the page cannot be tested without " + "; ".join(missing))
    folder = tmp_path_factory.mktemp("pages")
    write_pages(folder)
    write_comparisons(folder)
    env = dict(os.environ, PAGES=str(folder), BUNDLE=str(BUNDLE), CHROMIUM=CHROMIUM)
    report = folder / "report.xml"
    command = ["node", "--test", "--test-reporter=junit", f"--test-reporter-destination={report}"]
    subprocess.run([*command, str(CHECKS)], env=env, cwd=ROOT, timeout=300)
    return read_results(report.read_text(encoding="utf-8", errors="replace"))


LEFT_OUT = why_no_page(PROGRAM)
needs_page = pytest.mark.skipif(LEFT_OUT is not None, reason=LEFT_OUT or "")


@needs_page
@pytest.mark.parametrize("name", names_of_checks())
def test_in_chromium(results, name):
    assert name in results, "it did not run"
    passed, text = results[name]
    assert passed, text


@needs_page
def test_every_check_counts_here(results):
    assert sorted(results) == sorted(names_of_checks())


def test_a_failure_in_colour_is_read():
    case = '<testcase name="a"><failure>\x1b[31mred\x1b[0m</failure></testcase>'
    found = read_results(f"<testsuites>{case}<testcase name='b'/></testsuites>")
    assert found == {"a": (False, "[31mred[0m"), "b": (True, "")}


def test_what_set_up_should_have_made_is_missed(tmp_path):
    for path in ("web/node_modules/playwright-core", "build/web"):
        (tmp_path / path).mkdir(parents=True)
    bundle = tmp_path / "build/web"
    (missing,) = missing_parts(tmp_path, bundle, "/bin/sh")
    assert "the bundle" in missing
    (bundle / "page.js").touch()
    assert missing_parts(tmp_path, bundle, "/bin/sh") == []
    (missing,) = missing_parts(tmp_path, bundle, None)
    assert "Chromium" in missing


def test_only_without_node_or_on_request_is_the_page_left_out(tmp_path, monkeypatch):
    bin_folder, info = tmp_path / "bin", tmp_path / "meson-info"
    bin_folder.mkdir()
    info.mkdir()
    monkeypatch.setenv("PATH", str(bin_folder))
    program = tmp_path / "kscope"
    assert "not here" in why_no_page(program)
    for name, version in (("npm", ""), ("node", "v18.19.0")):
        (bin_folder / name).write_text(f"#!/bin/sh\necho {version}\n")
        (bin_folder / name).chmod(0o755)
    assert "18.19.0" in why_no_page(program)
    (bin_folder / "node").write_text("#!/bin/sh\necho v20.1.0\n")
    assert why_no_page(program) is None
    options = info / "intro-buildoptions.json"
    for value, is_out in (("auto", False), ("disabled", True)):
        options.write_text(json.dumps([{"name": "page", "value": value}]))
        assert (why_no_page(program) is not None) == is_out


@pytest.mark.parametrize(
    ("value", "status", "words"),
    [("disabled", 0, "-Dview=disabled"), ("auto", 1, "libmicrohttpd"), ("auto", 0, "Node")],
)
def test_only_without_the_library_or_on_request_is_the_server_left_out(
    tmp_path, monkeypatch, value, status, words
):
    (tmp_path / "meson-info").mkdir()
    options = tmp_path / "meson-info" / "intro-buildoptions.json"
    options.write_text(json.dumps([{"name": "view", "value": value}]))
    config = tmp_path / "pkg-config"
    config.write_text(f"#!/bin/sh\nexit {status}\n")
    config.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert words in why_no_view(tmp_path / "kscope")
