"""Goal: set-up asks for what is missing, and for nothing twice. Method: a machine of stand-ins."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTALLED_ALL = 'shift 3; for p; do printf "installed=%s:amd64 " "$p"; done'


@pytest.fixture
def machine(tmp_path):
    """A tree with only the script, and a PATH whose system commands are stand-ins."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/setup.sh", tmp_path / "tools")
    (tmp_path / "requirements.txt").write_text("six==1.17.0\n")
    (tmp_path / "bin").mkdir()
    stand_in(tmp_path, "id", "echo 0")
    stand_in(tmp_path, "dpkg-query", INSTALLED_ALL)
    stand_in(tmp_path, "apt-get", 'echo "$@" >>"$LOG"')
    stand_in(tmp_path, "clang", "echo 19.1.7")
    for program in ("node", "npm", "chromium"):
        stand_in(tmp_path, program, "exit 0")
    for python in ("python3.11", "python3"):
        stand_in(tmp_path, python, 'echo "python $*" >>"$LOG"; exit 1')
    return tmp_path


def stand_in(machine, name, script):
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def make_environment(machine):
    """What an earlier run of the script leaves behind."""
    (machine / ".venv/bin").mkdir(parents=True)
    (machine / ".venv/bin/python").symlink_to("/bin/true")
    digest = hashlib.sha256((machine / "requirements.txt").read_bytes()).hexdigest()
    (machine / ".venv/stamp").write_text(f"{machine} {digest}  -\n")


def run(machine, *arguments, **env):
    log = machine / "log"
    log.write_text("")
    path = f"{machine}/bin:/usr/bin:/bin"
    done = subprocess.run(
        ["tools/setup.sh", *arguments],
        cwd=machine,
        env={"PATH": path, "LOG": str(log), **env},
        capture_output=True,
        text=True,
    )
    return done, log.read_text()


def test_nothing_missing_asks_nothing(machine):
    make_environment(machine)
    for level in ("demo", "test", "ci"):
        done, log = run(machine, level)
        assert (done.returncode, done.stdout, done.stderr, log) == (0, "", "", "")


def test_environment_behind_a_link_is_left_alone(machine, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "bin").mkdir()
    (elsewhere / "bin/python").symlink_to("/bin/true")
    (elsewhere / "stamp").write_text("of another folder\n")
    (machine / ".venv").symlink_to(elsewhere)
    done, log = run(machine, "demo")
    assert done.returncode == 1 and ".venv is a link" in done.stderr
    assert "venv --clear" not in log and (elsewhere / "bin/python").exists()


def test_missing_packages_as_root_are_installed(machine):
    make_environment(machine)
    stand_in(machine, "dpkg-query", 'printf "installed=gcc installed=zlib1g-dev:amd64 "; exit 1')
    done, log = run(machine, "demo")
    update, install = log.splitlines()
    assert done.returncode == 0
    assert update.endswith("update -qq")
    words = install.split()
    assert "install" in words and "meson" in words and "libzstd-dev" in words
    assert "gcc" not in words and "zlib1g-dev" not in words and "libcmocka-dev" not in words


def test_missing_packages_as_a_user_are_named(machine):
    make_environment(machine)
    stand_in(machine, "id", "echo 1000")
    stand_in(machine, "dpkg-query", "exit 1")
    done, log = run(machine, "test")
    assert (done.returncode, log) == (1, "")
    command = done.stderr.splitlines()[-1]
    assert "apt-get install" in command and " gcc " in command and " libcmocka-dev" in command


def test_removed_package_counts_as_missing(machine):
    make_environment(machine)
    stand_in(
        machine,
        "dpkg-query",
        "shift 3; for p; do case $p in gcc) s=config-files ;; *) s=installed ;; esac; "
        'printf "%s=%s " $s "$p"; done',
    )
    _, log = run(machine, "demo")
    assert log.splitlines()[-1].split()[-1] == "gcc"


def test_sanitizer_runtime_follows_clang(machine):
    make_environment(machine)
    script = 'case "$*" in *libclang-rt*) exit 1 ;; esac; ' + INSTALLED_ALL
    stand_in(machine, "dpkg-query", script)
    _, log = run(machine, "ci")
    assert log.splitlines()[-1].split()[-1] == "libclang-rt-19-dev"


def test_changed_requirements_make_a_new_environment(machine):
    make_environment(machine)
    (machine / "requirements.txt").write_text("six==1.16.0\n")
    script = 'case $1 in -m) mkdir -p .venv/bin; echo "$@" >>"$LOG" ;; esac'
    stand_in(machine, "python3.11", script)
    done, log = run(machine, "demo")
    assert done.returncode == 0
    assert log.splitlines() == ["-m venv --clear .venv"]
    done, log = run(machine, "demo")
    assert (done.returncode, log) == (0, "")


def test_page_packages_are_installed_for_tests_only(machine):
    make_environment(machine)
    (machine / "web").mkdir()
    (machine / "web/install.sh").write_text('#!/bin/sh\necho installed >>"$LOG"\n')
    (machine / "web/install.sh").chmod(0o755)
    assert run(machine, "demo")[1] == ""
    assert run(machine, "test")[1] == "installed\n"
    stand_in(machine, "node", "exit 1")  # as an old one answers
    done, log = run(machine, "test")
    assert (done.returncode, log) == (0, "") and "no Node 20" in done.stderr


def test_node_without_npm_leaves_the_page_out(machine):
    make_environment(machine)
    (machine / "web").mkdir()
    (machine / "web/install.sh").write_text('#!/bin/sh\necho installed >>"$LOG"\n')
    (machine / "web/install.sh").chmod(0o755)
    stand_in(machine, "id", "echo 1000")
    (machine / "bin/npm").unlink()
    tools = machine / "only"
    tools.mkdir()
    for name in "sh sha256sum cat dirname cut uname grep sed env flock".split():
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    done, log = run(machine, "test", PATH=f"{machine}/bin:{tools}")
    assert (done.returncode, log) == (0, ""), done.stderr
    assert "without npm" in done.stderr


def test_unknown_level_is_refused(machine):
    done, _ = run(machine, "everything")
    assert done.returncode == 2 and "usage" in done.stderr


def test_second_run_is_quick():
    assert (ROOT / ".venv/stamp").exists(), "make test sets the tree up by the script"
    begin = time.monotonic()
    command = [str(ROOT / "tools/setup.sh"), "test"]
    done = subprocess.run(command, check=True, env=dict(os.environ), capture_output=True, text=True)
    assert time.monotonic() - begin < 2
    # The version of Node is told by Node itself, for which the stand-ins only have a status.
    node = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    assert ("no Node" in done.stderr) == (int(node.strip("v\n").split(".")[0]) < 20)
