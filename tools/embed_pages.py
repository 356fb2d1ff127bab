#!/usr/bin/env python3
"""Writes the pages docs/rules/<id>.md into a C file, so that `kscope explain` needs no files.

embed_pages.py FOLDER OUT.c
"""

import pathlib
import sys

HEAD = """/* Made by tools/embed_pages.py from docs/rules. */
#include "show/rule_pages.h"

const struct ks_rule_page ks_rule_pages[] = {
"""


def literal(text):
    """C string literals, one a line."""
    lines = []
    for line in text.splitlines(keepends=True):
        quoted = line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'     "{quoted}"')
    return "\n".join(lines)


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    pages = [path for path in sorted(folder.glob("*.md")) if path.stem != "README"]
    rows = [
        f'    {{"{page.stem}",\n{literal(page.read_text(encoding="utf-8"))}}},\n' for page in pages
    ]
    out.write_text(HEAD + "".join(rows) + "    {0, 0},\n};\n", encoding="utf-8")


if __name__ == "__main__":
    main()
