"""Goal: help, manual page, completion and docs/cli.md come from one table and are of use. Method:
they are compared with each other and read by the programs that they are for."""

import re
import shlex
import subprocess

import pytest
from cli_program import PROGRAM, ROOT


def commands(kscope):
    text = kscope("--help").stdout
    listed = text[text.index("Commands:") :]
    return re.findall(r"^  ([a-z]+) ", listed, re.M)


def test_help_fits_and_starts_with_examples(kscope):
    for words in [(), *((name,) for name in commands(kscope))]:
        run = kscope(*words, "--help")
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.startswith("Examples:\n  kscope ")
        assert [line for line in run.stdout.splitlines() if len(line) > 80] == []
        assert not re.search(r"[ \t]$", run.stdout, re.M)


def test_short_help_and_help_command(kscope):
    for name in commands(kscope):
        short = kscope(name, "-h").stdout
        full = kscope(name, "--help").stdout
        assert short.startswith(f"Usage: kscope {name}")
        assert len(short) < len(full)
        assert kscope("help", name).stdout == full
        assert "Exit status:" in full


def test_listed_commands_work(kscope):
    for name in commands(kscope):
        assert "Cannot find command" not in kscope(name, "-h").stderr


def test_examples_of_help_are_accepted(kscope, small):
    """Each example parses: what it lacks is its file, not its options."""
    for name in commands(kscope):
        if name == "run":
            continue
        for line in re.findall(r"^  kscope (.*)$", kscope(name, "--help").stdout, re.M):
            run = kscope(*shlex.split(line), cwd=small.parent)
            assert run.returncode in (0, 3), (line, run.stderr)


def test_tables_of_report_are_those_of_the_library(kscope, small):
    text = re.sub(r"\s+", " ", kscope("report", "--help").stdout)
    listed = re.search(r"instead of the overview\. One of: ([a-z_, ]+)\.", text)[1].split(", ")
    assert "operators" in listed
    for name in listed:
        assert kscope("report", "--table", name, small).returncode == 0


@pytest.mark.parametrize(
    ("option", "path"), [("--man", "docs/kscope.1"), ("--markdown", "docs/cli.md")]
)
def test_pages_are_up_to_date(kscope, option, path):
    assert kscope("help", option).stdout == (ROOT / path).read_text(), (
        f"write it anew: build/kscope help {option} > {path}"
    )


def test_manual_page_has_no_warnings(kscope):
    page = kscope("help", "--man").stdout
    run = subprocess.run(
        ["groff", "-man", "-Tutf8", "-P-c", "-ww"], input=page, capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "SYNOPSIS" in re.sub(".\b|\x1b\\[[0-9]*m", "", run.stdout)


# ---------------------------------------------------------------- completion

COMPLETE = """
set -euo pipefail
source <("$1" completion bash)
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_kscope
printf '%s\\n' ${COMPREPLY[@]+"${COMPREPLY[@]}"}
"""


def complete(*words):
    run = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", PROGRAM, "kscope", *words], capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.split()


def test_bash_completes(kscope):
    assert set(commands(kscope)) <= set(complete(""))
    assert complete("rep") == ["report"]
    assert "--json" in complete("report", "--")
    assert complete("report", "--col") == ["--color"]
    assert complete("report", "--color", "al") == ["always"]
    assert "kernels" in complete("report", "-t", "")
    assert complete("report", "-o", "") == []  # files: left to the shell
    assert complete("completion", "") == ["bash", "zsh", "fish"]
    assert "report" in complete("help", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(kscope, shell):
    text = kscope("completion", shell).stdout
    for name in commands(kscope):
        assert name in text
    run = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
