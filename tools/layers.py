#!/usr/bin/env python3
"""Checks which folder includes which.

The folders are the stages that data flows through, and ALLOWED is the whole map: an edge that is
not in it is a fault. Adding an edge is one line here, so that somebody decides it.

Use: tools/layers.py [ROOT]
"""

import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

# What each layer may include besides itself. `public` is include/kscope. System headers are free
# for all layers that SYSTEM_ONLY does not name.
ALLOWED = {
    "public": set(),
    "wire": set(),
    "capture": {"wire"},
    "base": {"public"},
    "measure": {"base", "public"},
    "store": {"base", "public"},
    # Memory snapshots know the names of Python frames as analyses do.
    "snapshot": {"base", "store", "analyze", "public"},
    "read": {"base", "wire", "store", "snapshot", "public"},
    "analyze": {"base", "measure", "store", "public"},
    "query": {"base", "store", "analyze", "public"},
    "advise": {"base", "measure", "store", "analyze", "public"},
    "compare": {"base", "measure", "store", "analyze", "advise", "public"},
    "cache": {"base", "store", "analyze", "advise", "public"},
    # A search plays with settings and numbers alone: who runs scripts is the launcher.
    "tune": {"base", "measure", "public"},
    "show": {"base", "store", "query", "analyze", "advise", "compare", "snapshot", "public"},
    # Rules that users write are queries; their texts show numbers as the report does.
    "rules": {"base", "store", "query", "analyze", "advise", "show", "public"},
    # Exports of events go over the input's text once more, so they know readers.
    "export": {"base", "measure", "store", "read", "analyze", "query", "advise", "show", "public"},
    # The page is an export of everything, in compressed blocks.
    "page": {
        "base",
        "measure",
        "store",
        "analyze",
        "advise",
        "show",
        "export",
        "public",
    },
    # Files directly in core/ put the stages together behind the public API.
    "core": {
        "base",
        "measure",
        "store",
        "read",
        "analyze",
        "query",
        "advise",
        "cache",
        "compare",
        "show",
        "rules",
        "export",
        "page",
        "snapshot",
        "public",
    },
    "serve": {"base", "public"},
    "launch": {"base", "tune", "public"},
    # `kscope run` and `kscope view` are commands like any other.
    "cli": {"launch", "serve", "public"},
    "python": {"wire", "capture", "public"},
}

# Layers that may use only these system headers; record layouts are read by two programs.
SYSTEM_ONLY = {"wire": {"stdint.h"}}

# System headers that a layer must stay away from.
SYSTEM_NEVER = {"capture": {"stdio.h"}}

# Tests, fuzz targets, benches and examples may look at everything.
FREE = {"tests", "fuzz", "bench", "examples", "tools"}

# Headers that the build makes.
GENERATED = {"kscope_build.h"}

# Python that may import these packages; everything else works without them.
PYTHON_HEAVY = {
    "torch": (
        "python/kinetoscope/torch/",
        "python/kinetoscope/hf/",
        "python/kinetoscope/debug/",
        "python/kinetoscope/tune/",
    ),
    "transformers": ("python/kinetoscope/hf/",),
    "peft": ("python/kinetoscope/hf/",),
    "lightning": ("python/kinetoscope/lightning/",),
    "pytorch_lightning": ("python/kinetoscope/lightning/",),
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<([^>]+)>)', re.M)
IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)", re.M)


@dataclass(frozen=True, order=True)
class Fault:
    path: str
    line: int
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: [layers] {self.text}"


def layer_of(path):
    """Name of the layer that owns `path` (relative, with slashes), or None when it is free."""
    parts = pathlib.PurePosixPath(path).parts
    if parts[0] in FREE:
        return None
    if parts[0] == "include":
        return "public"
    if parts[0] == "core":
        return parts[1] if len(parts) > 2 else "core"
    return parts[0]


def resolve(name, including, files):
    """Path in the tree that `#include "name"` of the file `including` means, or None."""
    here = str(pathlib.PurePosixPath(including).parent / name)
    for candidate in (here, f"core/{name}", f"include/{name}", name):
        if candidate in files:
            return candidate
    return None


def check_system(path, line, layer, name):
    if layer in SYSTEM_ONLY and name not in SYSTEM_ONLY[layer]:
        yield Fault(path, line, f"{layer}/ may not include <{name}>")
    if name in SYSTEM_NEVER.get(layer, ()):
        yield Fault(path, line, f"{layer}/ may not include <{name}>")


def check_c_file(path, text, files):
    layer = layer_of(path)
    if layer is None:
        return
    if layer not in ALLOWED:
        yield Fault(path, 1, f"folder {layer}/ is not in the table of tools/layers.py")
        return
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        name = match[1] or match[2]
        if match[1] is None and not name.startswith("kscope/"):
            yield from check_system(path, line, layer, name)
            continue
        if ".." in pathlib.PurePosixPath(name).parts:
            yield Fault(path, line, f'name the stage instead of climbing: "{name}"')
            continue
        target = resolve(name, path, files)
        if target is None:
            if pathlib.PurePosixPath(name).name not in GENERATED:
                yield Fault(path, line, f'nothing in the tree is called "{name}"')
            continue
        target_layer = layer_of(target)
        if target_layer != layer and target_layer not in ALLOWED[layer]:
            yield Fault(path, line, f"{layer}/ may not include {target_layer}/ ({name})")


def check_python_file(path, text):
    if not path.startswith("python/kinetoscope/"):
        return
    for match in IMPORT.finditer(text):
        homes = PYTHON_HEAVY.get(match[1])
        if homes and not path.startswith(homes):
            line = text.count("\n", 0, match.start()) + 1
            yield Fault(path, line, f"only {' and '.join(homes)} may import {match[1]}")


def list_files(root):
    """Files of the tree, tracked or new, as relative paths."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted({name for name in out.split("\0") if name and (root / name).is_file()})


def check_tree(root, files=None):
    """All faults of the tree under `root`, in the order of path and line."""
    root = pathlib.Path(root)
    files = list_files(root) if files is None else files
    known = set(files)
    faults = []
    for path in files:
        if path.endswith((".c", ".h", ".def")):
            text = (root / path).read_text(encoding="utf-8", errors="replace")
            faults.extend(check_c_file(path, text, known))
        elif path.endswith(".py"):
            text = (root / path).read_text(encoding="utf-8", errors="replace")
            faults.extend(check_python_file(path, text))
    return sorted(faults)


def main(arguments):
    root = arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent
    faults = check_tree(root)
    for fault in faults:
        print(fault)
    print(f"layers: {len(ALLOWED)} layers, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
