"""The extension for the interpreter under test: that of the build, or one made by a line of gcc.

Tests that run by the interpreter of KSCOPE_TEST_PYTHON get the latter. By hand:

Use: build_extension.py PYTHON FOLDER [GCC-ARGUMENT]...
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "build" / "capture"
PYTHON = os.environ.get("KSCOPE_TEST_PYTHON", sys.executable)
WARNINGS = "-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wcast-qual -Werror".split()
ASK = """
import json, sysconfig
print(json.dumps([sysconfig.get_paths()["include"], sysconfig.get_config_var("EXT_SUFFIX")]))
"""


def build(python, folder, arguments=()):
    out = subprocess.run([python, "-c", ASK], check=True, capture_output=True, text=True).stdout
    include, suffix = json.loads(out)
    parts = [ROOT / "python" / "ext", ROOT / "capture" / "sampler", ROOT / "capture" / "monitor"]
    sources = sorted(str(path) for part in parts for path in part.glob("*.c"))
    sources.append(str(ROOT / "capture" / "shared" / "small_file.c"))
    command = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O3", "-g", *WARNINGS, "-fvisibility=hidden"]
    command += ["-fPIC", "-shared", f"-I{ROOT}", f"-I{ROOT}/include", "-isystem", include, *sources]
    command += [f"-L{CAPTURE}", "-lkscope_capture", f"-Wl,-rpath,{CAPTURE}"]
    module = pathlib.Path(folder) / f"_kscope{suffix}"
    subprocess.run([*command, "-o", str(module), *arguments], check=True)
    return module


def environment(folder):
    """Variables by which PYTHON finds the package; what must be built goes into `folder`."""
    env = dict(os.environ, PYTHONPATH=f"{ROOT / 'python'}:{ROOT / 'tests' / 'capture'}")
    if PYTHON != sys.executable:
        build(PYTHON, folder)
        env["KSCOPE_EXTENSION_DIR"] = str(folder)
    return env


if __name__ == "__main__":
    print(build(sys.argv[1], sys.argv[2], sys.argv[3:]))
