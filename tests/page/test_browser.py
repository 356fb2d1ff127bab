"""The report page in a browser. Goal: every view of real and of broken inputs works, is quiet, and
says the numbers of the JSON. Method: `kscope report --html` writes the pages, page.test.mjs looks
at them in Chromium, and each of its tests counts as one here."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKS = pathlib.Path(__file__).with_name("page.test.mjs")
DATA = ROOT / "tests" / "data"
BUNDLE = pathlib.Path(os.environ.get("KSCOPE", "build/kscope")).resolve().parent / "web"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")

INPUTS = {
    "gpu": ["A.host_sync.bad.pt.trace.json.gz"],
    "ranks": ["D.straggler.bad.rank0.pt.trace.json.gz", "D.straggler.bad.rank1.pt.trace.json.gz"],
    "memory": ["A.leak.bad.pt.trace.json.gz"],
}

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
    program = os.environ["KSCOPE"]
    for name, paths in write_inputs(folder).items():
        for option, end in ((["--json"], "json"), ([], "txt")):
            run = subprocess.run(
                [program, "report", *option, *paths], capture_output=True, text=True, check=True
            )
            (folder / f"{name}.{end}").write_text(run.stdout, encoding="utf-8")
        page = folder / f"{name}.html"
        command = [program, "report", "--html", str(page), *paths]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """(passed, text) of each test of page.test.mjs."""
    folder = tmp_path_factory.mktemp("pages")
    write_pages(folder)
    env = dict(os.environ, PAGES=str(folder), BUNDLE=str(BUNDLE), CHROMIUM=CHROMIUM)
    report = folder / "report.xml"
    command = ["node", "--test", "--test-reporter=junit", f"--test-reporter-destination={report}"]
    subprocess.run([*command, str(CHECKS)], env=env, cwd=ROOT, timeout=300)
    found = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        failure = case.find("failure")
        found[case.get("name")] = (failure is None, "" if failure is None else failure.text)
    return found


needs_page = pytest.mark.skipif(
    not (ROOT / "web/node_modules/playwright-core").is_dir()
    or not (BUNDLE / "page.js").exists()
    or not CHROMIUM,
    reason="the page is built and tested with Node and Chromium, which are not here",
)


@needs_page
@pytest.mark.parametrize("name", names_of_checks())
def test_in_chromium(results, name):
    assert name in results, "it did not run"
    passed, text = results[name]
    assert passed, text
