"""Which parts this machine's build has not, as tools/setup.sh and Meson decide it: only what needs
one of these may be skipped. A part that should be there and is not is a fault."""

import json
import pathlib
import shutil
import subprocess

NODE_MIN = 20


def _is_disabled(program, option):
    """Was the build of the program configured without it?"""
    options = pathlib.Path(program).parent / "meson-info" / "intro-buildoptions.json"
    if not options.exists():
        return False
    values = {each["name"]: each["value"] for each in json.loads(options.read_text())}
    return values.get(option) == "disabled"


def why_no_page(program):
    """Why this machine builds no page; None if it does."""
    if not shutil.which("node") or not shutil.which("npm"):
        return "the page is built and tested with Node and npm, which are not here"
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    if int(version.strip().lstrip("v").split(".")[0]) < NODE_MIN:
        return f"Node is {version.strip()}; the page is built with {NODE_MIN} or newer"
    if _is_disabled(program, "page"):
        return "this build was configured with -Dpage=disabled"
    return None


def why_no_view(program):
    """Why this machine builds no server, or no page for it; None if it does."""
    if _is_disabled(program, "view"):
        return "this build was configured with -Dview=disabled"
    asked = shutil.which("pkg-config") and subprocess.run(
        ["pkg-config", "--exists", "libmicrohttpd"], stderr=subprocess.DEVNULL
    )
    if not asked or asked.returncode != 0:
        return "libmicrohttpd is not here"
    return why_no_page(program)
