"""Builds the module of the function profiler for one interpreter, by one line of gcc.

Use: build_functions.py PYTHON FOLDER [GCC-ARGUMENT]...    prints the path of the module
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WARNINGS = "-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wcast-qual -Werror".split()
ASK = """
import json, sysconfig
print(json.dumps([sysconfig.get_paths()["include"], sysconfig.get_config_var("EXT_SUFFIX")]))
"""


def build(python, folder, arguments=()):
    out = subprocess.run([python, "-c", ASK], check=True, capture_output=True, text=True).stdout
    include, suffix = json.loads(out)
    module = pathlib.Path(folder) / f"_kscope_functions{suffix}"
    sources = sorted(map(str, (ROOT / "python" / "ext").glob("functions*.c")))
    command = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", *WARNINGS, "-fvisibility=hidden"]
    command += ["-fPIC", "-shared", f"-I{ROOT}", "-isystem", include, *sources, "-o", str(module)]
    subprocess.run([*command, *arguments], check=True)
    return module


if __name__ == "__main__":
    print(build(sys.argv[1], sys.argv[2], sys.argv[3:]))
