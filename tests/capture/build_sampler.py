"""Builds the module of the stack sampler for one interpreter, by one line of gcc.

Use: build_sampler.py PYTHON FOLDER [GCC-ARGUMENT]...    prints the folder

The recorder is build/capture/libkscope_capture.so when the tree has built it, else the plain one
beside these tests.
"""

import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WARNINGS = "-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wcast-qual -Werror".split()
ASK = """
import json, sysconfig
print(json.dumps([sysconfig.get_paths()["include"], sysconfig.get_config_var("EXT_SUFFIX")]))
"""
PLAIN = ["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", "-fPIC", "-shared", f"-I{ROOT}"]


def find_recorder(folder):
    recorder = ROOT / "build" / "capture" / "libkscope_capture.so"
    if not recorder.exists():
        recorder = pathlib.Path(folder) / "libplain_recorder.so"
        source = str(HERE / "plain_recorder.c")
        subprocess.run(["gcc", *PLAIN, "-pthread", source, "-o", str(recorder)], check=True)
    return recorder


def build(python, folder, arguments=()):
    command = [python, "-c", ASK]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    include, suffix = json.loads(out)
    recorder = find_recorder(folder)
    sources = [
        *(ROOT / "python" / "ext").glob("sampler*.c"),
        *(ROOT / "capture" / "sampler").glob("*.c"),
    ]
    command = ["gcc", *PLAIN, *WARNINGS, "-fvisibility=hidden", "-isystem", include]
    command += [*sorted(map(str, sources)), str(recorder), f"-Wl,-rpath,{recorder.parent}"]
    command += ["-o", str(pathlib.Path(folder) / f"_kscope_sampler{suffix}"), *arguments]
    subprocess.run(command, check=True)
    return folder


if __name__ == "__main__":
    print(build(sys.argv[1], sys.argv[2], sys.argv[3:]))
