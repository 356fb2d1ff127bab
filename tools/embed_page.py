#!/usr/bin/env python3
"""Writes the script and the style sheet of the report page into a C file, with the hashes by which
the page's content security policy knows them.

embed_page.py OUT.c [PAGE.js PAGE.css]

Without the two files there is no page: then both texts are empty.
"""

import base64
import hashlib
import pathlib
import re
import sys

HEAD = """/* Made by tools/embed_page.py. */
#include "page/page_bundle.h"

"""

# What would end the element, or be changed by a parser of HTML before it is hashed.
FORBIDDEN = {
    "script": re.compile(rb"</script|<!--|[\r\0]", re.I),
    "style": re.compile(rb"</style|<!--|[\r\0]", re.I),
}

BYTES_A_LINE = 64


def check(kind, data):
    """Ends the build when the text cannot stand in a page as it is."""
    found = FORBIDDEN[kind].search(data)
    if found:
        sys.exit(f"embed_page.py: the {kind} holds {found.group()!r} at byte {found.start()}")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        sys.exit(f"embed_page.py: the {kind} is not UTF-8: {error}")


def array(name, data):
    """A C array of the bytes; a literal may be too long for a compiler."""
    rows = [data[i : i + BYTES_A_LINE] for i in range(0, len(data), BYTES_A_LINE)]
    lines = "\n".join("    " + "".join(f"{byte}," for byte in row) for row in rows)
    return f"static const unsigned char {name}[] = {{\n{lines}\n    0}};\n\n"


def hash_of(data):
    """The source of a policy that allows just these bytes."""
    return "sha256-" + base64.b64encode(hashlib.sha256(data).digest()).decode()


def source(script, style):
    """The C file."""
    text = HEAD
    for name, data in (("script", script), ("style", style)):
        check(name, data)
        text += array(f"{name}_bytes", data)
    return (
        text
        + f"""const struct ks_page_bundle ks_page_bundle = {{
    .script = {{(const char *)script_bytes, {len(script)}}},
    .style = {{(const char *)style_bytes, {len(style)}}},
    .script_hash = "{hash_of(script)}",
    .style_hash = "{hash_of(style)}",
}};
"""
    )


def main():
    out, *files = sys.argv[1:]
    script, style = (pathlib.Path(name).read_bytes() for name in files) if files else (b"", b"")
    pathlib.Path(out).write_text(source(script, style), encoding="utf-8")


if __name__ == "__main__":
    main()
