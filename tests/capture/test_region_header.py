"""The header for C and C++ compiles without a warning in each language that it promises, finds the
recorder only where it is loaded, and several files of one program may include it."""

import os
import pathlib
import shutil
import subprocess

import pytest
import recording
from write_recording import COUNTER, MARK, VALUE_REAL

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KSCOPE_BIN", ROOT / "build" / "kscope")).resolve().parent
WARNINGS = "-Wall -Wextra -Wconversion -Wshadow -Werror".split()

PROGRAM = """
#include <kscope/kscope_region.h>
#include <stdlib.h>

void other(void);
struct options { const char *folder; uint64_t bytes_max; int32_t of[4]; };

static void block(void)
{
    KS_REGION("block", "custom");
    KS_REGION("inner", "custom");
    other();
}

int main(int count, char **words)
{
    if (count > 2) {
        void *library = dlopen(words[1], RTLD_NOW);
        struct options options = {words[2], 0, {-1, -1, -1, -1}};
        char reason[128];
        int (*start)(const struct options *, char *);
        if (!library) {
            return 3;
        }
        *(void **)&start = dlsym(library, "ks_capture_start");
        if (start(&options, reason)) {
            return 4;
        }
    }
    for (int i = 0; i < 3; i++) {
        block();
    }
    return 0;
}
"""

OTHER = """
#include <kscope/kscope_region.h>

void other(void);
void other(void)
{
    static struct ks_region_site mark = KS_REGION_SITE("mark", "custom");
    static struct ks_region_site loss = KS_REGION_SITE("loss", "custom");
    ks_region_mark(&mark);
    ks_region_count(&loss, 0.5);
}
"""

LANGUAGES = [
    *[(tool, std, "c") for tool in ("gcc", "clang") for std in ("c11", "c17", "gnu17")],
    *[(tool, std, "cc") for tool in ("g++", "clang++") for std in ("c++11", "c++17")],
]


def build(tool, std, suffix, folder):
    folder.mkdir()
    sources = []
    for name, text in (("program", PROGRAM), ("other", OTHER)):
        sources.append(folder / f"{name}.{suffix}")
        is_cpp = suffix == "cc"
        sources[-1].write_text(text.replace("void other(void);", 'extern "C" void other(void);')
                               if is_cpp else text)  # fmt: skip
    program = folder / "program"
    command = [tool, f"-std={std}", *WARNINGS, f"-I{ROOT / 'include'}", *map(str, sources)]
    subprocess.run([*command, "-O2", "-ldl", "-o", str(program)], check=True)
    return program


@pytest.mark.parametrize("tool, std, suffix", LANGUAGES)
def test_in_each_language(tmp_path, tool, std, suffix):
    assert shutil.which(tool), f"{tool} is missing"
    program = build(tool, std, suffix, tmp_path / "build")
    assert subprocess.run([program], check=True, capture_output=True).stdout == b""
    library = BUILD / "capture" / "libkscope_capture.so"
    subprocess.run([program, library, tmp_path], check=True, timeout=60)
    (one,) = recording.read_folder(tmp_path).values()
    names = [site[0] for _, site, _, _ in one.regions()]
    assert names == ["inner", "block"] * 3
    (events,) = one.events.values()
    kinds = [kind for _, _, kind in events]
    assert [kinds.count(kind) for kind in (MARK, COUNTER, VALUE_REAL)] == [3, 3, 3]
    assert one.lost == 0
