#!/usr/bin/env python3
"""The house rules that a script can check, over the files that git knows or would add.

Each check has a name and a test that plants a fault. A fault fails the run; a note is a place to
look at again, and never a reason to cut code badly.

Use: tools/tidy.py [--list] [--only NAME]... [--changed] [--root FOLDER]
"""

import argparse
import ast
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass

import layers

PRODUCT = ("core/", "cli/", "launch/", "serve/", "capture/", "wire/", "include/", "python/ext/")
PRINTS_ALLOWED = ("cli/",)

# Data that tests feed in was written by other programs, whose lines, paths and words are theirs.
DATA = re.compile(
    r"^(tests|fuzz|bench|examples)/.*\.(json|jsonl|txt|gz|zst|pickle|sqlite|bin|out)$"
    r"|^fuzz/corpus/"
)

FILE_BYTES_MAX = 1 << 20
# Real traces that tests and benches grow their inputs from.
TRACE_FOLDER = "tests/data/"
TRACE_BYTES_MAX = 2 << 20
TRACE_FOLDER_BYTES_MAX = 6 << 20
LINE_COLUMNS_MAX = 100
CASE_BYTES_MAX = 1 << 20
FOLDER_FILES_MAX = 30
FUNCTION_LINES_MAX = 70
FUNCTION_LINES_MAX_NOTED = 150
NESTING_MAX = 4
COMPLEXITY_MAX = 20
PARAMETERS_MAX = 6
C_LINES_MAX = 900
INTERNAL_HEADER_LINES_MAX = 200
PUBLIC_HEADER_LINES_MAX = 900


@dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    text: str
    is_note: bool = False


class Tree:
    """The files under `root`; `selected` are those that per-file checks look at."""

    def __init__(self, root, changed_only=False):
        self.root = pathlib.Path(root)
        self.files = layers.list_files(self.root)
        self.selected = self.changed_files() if changed_only else self.files
        self.texts = {}
        self.masked = {}

    def changed_files(self):
        out = ""
        for command in (
            ["git", "diff", "--name-only", "-z", "HEAD"],
            ["git", "ls-files", "-z", "--others", "--exclude-standard"],
        ):
            run = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
            out += run.stdout
        changed = set(out.split("\0"))
        return [path for path in self.files if path in changed]

    def text(self, path):
        """Text of a file, or None when it is not text."""
        if path not in self.texts:
            data = (self.root / path).read_bytes()
            is_text = b"\0" not in data[:8192]
            self.texts[path] = data.decode("utf-8", errors="replace") if is_text else None
        return self.texts[path]

    def code(self, path):
        """Text of a C file with comments and literals blanked, so that places stay the same."""
        if path not in self.masked:
            self.masked[path] = mask_c(self.text(path) or "")
        return self.masked[path]

    def c_files(self, suffixes=(".c", ".h")):
        return [path for path in self.selected if path.endswith(suffixes)]

    def prose_and_code(self):
        """Text files that people of the project wrote."""
        for path in self.selected:
            if not DATA.match(path) and self.text(path) is not None:
                yield path, self.text(path)


C_TOKEN = re.compile(
    r"""/\*.*?\*/|//(?:\\\n|[^\n])*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S
)


def mask_c(text):
    def blank(match):
        inner = re.sub(r"[^\n]", " ", match[0])
        return match[0][0] + inner[1:-1] + match[0][-1] if match[0][0] in "\"'" else inner

    return C_TOKEN.sub(blank, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


CHECKS = {}


def check(name, about):
    def register(function):
        CHECKS[name] = (function, about)
        return function

    return register


# ---------------------------------------------------------------- C code

BANNED_MEMORY = re.compile(
    r"(?<![\w.>])(malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf)\s*\("
)
BANNED_ALWAYS = re.compile(
    r"(?<![\w.>])(strcpy|strcat|strncpy|strncat|stpcpy|sprintf|vsprintf|strtok|strtok_r|atoi|atol"
    r"|atoll|atof|gets|alloca|__builtin_alloca)\s*\("
)
BANNED_OUTPUT = re.compile(
    r"(?<![\w.>])(printf|vprintf|fprintf|vfprintf|dprintf|vdprintf|puts|putchar|putc|fputs|fputc"
    r"|perror|exit|quick_exit|abort)\s*\("
)


@check("banned-calls", "memory, unsafe string and output calls stay where they belong")
def banned_calls(tree):
    for path in tree.c_files():
        if not path.startswith(PRODUCT):
            continue
        rules = [(BANNED_ALWAYS, "is banned: its length or its errors cannot be seen")]
        if not path.startswith("core/base/"):
            rules.append((BANNED_MEMORY, "is banned outside core/base: take an arena or ks_alloc"))
        if not path.startswith(PRINTS_ALLOWED):
            rules.append((BANNED_OUTPUT, "is banned outside cli/: libraries never print or exit"))
        for pattern, why in rules:
            for match in pattern.finditer(tree.code(path)):
                # A failed assertion says so and ends; it lives in base.
                if match[1] in ("abort", "fprintf") and path.startswith("core/base/"):
                    continue
                yield Finding(path, line_of(tree.code(path), match.start()), f"{match[1]}() {why}")


def compile_alone(root, path):
    command = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Werror"]
    command += ["-Iinclude", "-Icore", "-I.", "-isystem", sysconfig.get_paths()["include"]]
    command += ["-include", path, "-x", "c", "/dev/null"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True)
    errors = re.findall(r"error: (.*)", run.stderr)
    return errors[0] if run.returncode and errors else run.stderr.strip()[:200]


@check("lone-headers", "each header compiles alone")
def lone_headers(tree):
    headers = [path for path in tree.c_files((".h",)) if path.startswith(PRODUCT)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = pool.map(lambda path: compile_alone(tree.root, path), headers)
        for path, problem in zip(headers, results, strict=True):
            if problem:
                yield Finding(path, 1, f"does not compile alone: {problem}")


@check("own-header-first", "a .c file includes its own header first, so that it leans on no other")
def own_header_first(tree):
    known = set(tree.files)
    for path in tree.c_files((".c",)):
        own = path[:-2] + ".h"
        if not path.startswith(PRODUCT) or own not in known:
            continue
        first = layers.INCLUDE.search(tree.text(path))
        if not first or not first[1] or layers.resolve(first[1], path, known) != own:
            line = line_of(tree.text(path), first.start()) if first else 1
            yield Finding(path, line, f"first include is not {pathlib.PurePosixPath(own).name}")


PROTOTYPE = re.compile(r"^KS_API\b[^;{]*;", re.M)


@check("documented-api", "each prototype of include/kscope has a comment, or its group has")
def documented_api(tree):
    for path in tree.c_files((".h",)):
        if not path.startswith("include/kscope/"):
            continue
        text = tree.text(path)
        told = set()
        for match in PROTOTYPE.finditer(text):
            above = text[: match.start()]
            comment = above[above.rfind("/*") :]
            is_told = above.endswith("*/\n") and not comment.startswith("/* ---")
            # A prototype right below another shares its comment.
            if is_told or match.start() - 1 in told:
                told.add(match.end())
                continue
            names = re.findall(r"(\w+)\s*\(", match[0])
            line = line_of(text, match.start())
            yield Finding(path, line, f"no comment says what {names[0]}() does")


@dataclass
class Function:
    """A C function: signature and body, both masked, and the lines they cover."""

    name: str
    line: int
    parameters: int
    body: str
    lines: int
    raw: str


FUNCTION = re.compile(r"^([A-Za-z_][^;{}#]*?\b(\w+)\s*\(([^{};]*)\))[^;{}()]*\n\{\n", re.M)


def functions_of(tree, path):
    """Functions in the layout of clang-format: braces of a body stand alone in column 0."""
    code = tree.code(path)
    raw = tree.text(path)
    for match in FUNCTION.finditer(code):
        end = code.find("\n}", match.end() - 1)
        if end < 0:
            continue
        inner = re.sub(r"\([^()]*\)", "", match[3])
        count = 0 if inner.strip() in ("", "void") else inner.count(",") + 1
        yield Function(
            name=match[2],
            line=line_of(code, match.start()),
            parameters=count,
            body=code[match.end() : end],
            lines=code.count("\n", match.start(), end) + 2,
            raw=raw[max(0, raw.rfind("\n\n", 0, match.start())) : end],
        )


def nesting_of(body):
    """Deepest block; an initialiser in braces is no block."""
    depth = deepest = 0
    blocks = []
    for match in re.finditer(r"[{}]", body):
        if match[0] == "{":
            before = body[: match.start()].rstrip()
            is_block = before.endswith((")", ";", "{", "}", "else", "do", ":"))
            is_block = is_block and all(blocks)
            blocks.append(is_block)
            depth += is_block
            deepest = max(deepest, depth)
        elif blocks:
            depth -= blocks.pop()
    return deepest


def complexity_of(body):
    return 1 + len(re.findall(r"\b(?:if|for|while|case)\b|&&|\|\||\?", body))


@check("sizes", "functions, files and folders of a size that people can hold; notes only")
def sizes(tree):
    for path in tree.c_files():
        if not path.startswith(PRODUCT):
            continue
        yield from size_of_file(tree, path)
        for function in functions_of(tree, path):
            yield from size_of_function(path, function)
    for path in tree.selected:
        if path.endswith(".py") and not DATA.match(path):
            yield from size_of_python(tree, path)
    yield from size_of_folders(tree)


def size_of_file(tree, path):
    lines = tree.text(path).count("\n")
    limit = C_LINES_MAX
    if path.startswith("include/"):
        limit = PUBLIC_HEADER_LINES_MAX
    elif path.endswith(".h"):
        limit = INTERNAL_HEADER_LINES_MAX
    if lines > limit:
        yield Finding(path, 1, f"{lines} lines, look again at {limit}", is_note=True)


def size_of_function(path, function):
    limit = FUNCTION_LINES_MAX_NOTED if "tidy: long" in function.raw else FUNCTION_LINES_MAX
    for what, value, top in (
        ("lines", function.lines, limit),
        ("levels of nesting", nesting_of(function.body), NESTING_MAX),
        ("branches", complexity_of(function.body), COMPLEXITY_MAX),
        ("parameters", function.parameters, PARAMETERS_MAX),
    ):
        if what == "branches" and limit == FUNCTION_LINES_MAX_NOTED:
            continue
        if value > top:
            text = f"{function.name}: {value} {what}, look again at {top}"
            yield Finding(path, function.line, text, is_note=True)


def size_of_python(tree, path):
    try:
        module = ast.parse(tree.text(path))
    except SyntaxError as error:
        yield Finding(path, error.lineno or 1, f"is not Python: {error.msg}")
        return
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                text = f"{node.name}: {lines} lines, look again at {FUNCTION_LINES_MAX}"
                yield Finding(path, node.lineno, text, is_note=True)


def size_of_folders(tree):
    folders = {}
    cases = {}
    for path in tree.files:
        pure = pathlib.PurePosixPath(path)
        if path.endswith((".c", ".h", ".py")):
            folders.setdefault(str(pure.parent), []).append(path)
        if path.startswith("tests/golden/") and len(pure.parts) >= 5:
            case = "/".join(pure.parts[:4])
            cases[case] = cases.get(case, 0) + (tree.root / path).stat().st_size
    for folder, files in sorted(folders.items()):
        stems = {pathlib.PurePosixPath(path).stem for path in files}
        if len(stems) > FOLDER_FILES_MAX and not folder.startswith("tests"):
            text = f"{len(stems)} modules, look again at {FOLDER_FILES_MAX}"
            yield Finding(folder, 0, text, is_note=True)
    for case, size in sorted(cases.items()):
        if size > CASE_BYTES_MAX:
            yield Finding(case, 0, f"{size} bytes, look again at {CASE_BYTES_MAX}", is_note=True)


# ---------------------------------------------------------------- names

NO_MEANING = {"util", "utils", "misc", "common", "helper", "helpers", "manager"}


@check("file-names", "snake_case, and no word that says nothing")
def file_names(tree):
    for path in tree.selected:
        pure = pathlib.PurePosixPath(path)
        if DATA.match(path):
            continue
        words = set(re.split(r"[/._-]", path.lower()))
        for word in sorted(words & NO_MEANING):
            yield Finding(path, 0, f'"{word}" says nothing: name what is in it')
        if pure.suffix in (".c", ".h", ".py") and not re.fullmatch(r"[a-z0-9_]+", pure.stem):
            yield Finding(path, 0, "is not snake_case")


# Each stage that is a list of parts has its list in a file of this name.
NAMES_OF_STAGES = {"registry.c", "registry.h"}


@check("unique-names", "a .c or .h file has its name alone in the tree")
def unique_names(tree):
    homes = {}
    for path in tree.files:
        name = pathlib.PurePosixPath(path).name
        if path.endswith((".c", ".h")) and name not in NAMES_OF_STAGES:
            homes.setdefault(pathlib.PurePosixPath(path).name, []).append(path)
    for name, paths in sorted(homes.items()):
        for path in paths[1:]:
            yield Finding(path, 0, f"{paths[0]} is called {name} too")


LISTED_READER = re.compile(r"&ks_reader_(\w+)\b")
DEFINED_READER = re.compile(r"^const struct ks_reader ks_reader_(\w+) = \{(.*?)^\};", re.M | re.S)


@check("readers", "each reader in the registry has a file, a fuzz target, golden cases and a page")
def readers(tree):
    known = set(tree.files)
    sources = [path for path in tree.files if re.fullmatch(r"core/read/\w+\.c", path)]
    definitions = {}
    for path in sources:
        definitions.update(DEFINED_READER.findall(tree.code(path)))
    for registry in sources:
        if not registry.endswith("registry.c"):
            continue
        for name in sorted(set(LISTED_READER.findall(tree.code(registry)))):
            # A format that is only known by name takes no bytes, so there is nothing to test.
            if name in definitions and ".push" not in definitions[name]:
                continue
            for needed in (
                f"core/read/{name}.c",
                f"fuzz/fuzz_{name}.c",
                f"docs/formats/{name}.md",
            ):
                if needed not in known:
                    yield Finding(registry, 0, f"reader {name}: no {needed}")
            case = re.compile(rf"tests/golden/(\w+/)?{name}\w*/")
            if not any(case.match(path) for path in known):
                yield Finding(registry, 0, f"reader {name}: no case in tests/golden/{name}/")


# ---------------------------------------------------------------- all text


@check("blobs", "no file over 1 MiB, and 6 MiB of traces: large data is generated")
def blobs(tree):
    trace_bytes = 0
    for path in tree.files:
        size = (tree.root / path).stat().st_size
        is_trace = path.startswith(TRACE_FOLDER)
        trace_bytes += size if is_trace else 0
        limit = TRACE_BYTES_MAX if is_trace else FILE_BYTES_MAX
        if size > limit:
            yield Finding(path, 0, f"{size} bytes, at most {limit}")
    if trace_bytes > TRACE_FOLDER_BYTES_MAX:
        yield Finding(TRACE_FOLDER, 0, f"{trace_bytes} bytes, at most {TRACE_FOLDER_BYTES_MAX}")


# A character class keeps each pattern from finding itself here.
MACHINE_PATH = re.compile(
    r"(?<![\w.])(/wor[k]/|/hom[e]/[a-z]\w*/|/roo[t]/|/User[s]/\w|[A-Z]:\\User[s])|\.\./share[d]\b"
)
REGISTRY_HOST = re.compile(
    r"pypi\.or[g]|pythonhoste[d]\.or[g]|npmjs\.(?:or[g]|co[m])|debian\.or[g]|pytorch\.or[g]/whl"
    r"|--(?:extra-)?index-ur[l]|conda\.anacond[a]|crates\.i[o]"
)
UNFINISHED = re.compile(r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b")


def search(tree, pattern, why):
    for path, text in tree.prose_and_code():
        for match in pattern.finditer(text):
            yield Finding(path, line_of(text, match.start()), f'"{match[0]}": {why}')


@check("machine-paths", "no path of one machine")
def machine_paths(tree):
    yield from search(tree, MACHINE_PATH, "a path of one machine")


@check("registry-hosts", "packages by name only, never the address of a registry")
def registry_hosts(tree):
    yield from search(tree, REGISTRY_HOST, "address of a registry")


# Each of them can make markup or code of a name; web/src/dom.ts makes elements.
PAGE_MARKUP = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|DOMParser|srcdoc"
    r"|document\.write|eval|new Function)\b|setAttribute\(\s*['\"](?:style|on\w+)"
)
# None of them belongs into a page that asks nothing of a network; the page that `kscope view` gives
# asks its own server, and does so in one file.
PAGE_ASKING = "web/src/data/served.ts"
PAGE_REQUEST = re.compile(r"\b(fetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import\()")


@check("page-markup", "names never become markup or code of the page; one file of it may ask")
def page_markup(tree):
    for path in tree.selected:
        if not path.startswith("web/src/"):
            continue
        for pattern in (PAGE_MARKUP,) if path == PAGE_ASKING else (PAGE_MARKUP, PAGE_REQUEST):
            for match in pattern.finditer(tree.text(path)):
                yield Finding(
                    path, line_of(tree.text(path), match.start()), f"{match[0]} is not for pages"
                )


@check("unfinished", "nothing unfinished lands: do it, or leave it out")
def unfinished(tree):
    yield from search(tree, UNFINISHED, "do it, or leave it out")


SOURCE = (".c", ".h", ".def", ".py", ".sh", ".ts", ".css", "Makefile", "meson.build")


@check("lines", "at most 100 columns, no blanks at the end, no tabs in C and Python")
def lines(tree):
    for path, text in tree.prose_and_code():
        if not path.endswith(SOURCE):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            # The rows of a table are read across.
            if len(line) > LINE_COLUMNS_MAX and not path.endswith(".def"):
                yield Finding(path, number, f"{len(line)} columns, at most {LINE_COLUMNS_MAX}")
            if line != line.rstrip():
                yield Finding(path, number, "blanks at the end of the line")
            if "\t" in line and path.endswith((".c", ".h", ".def", ".py")):
                yield Finding(path, number, "a tab")


LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s#]+)(?:#[^)]*)?\)")


@check("links", "each relative link in a page leads to a file")
def links(tree):
    known = set(tree.files)
    folders = {str(parent) for path in known for parent in pathlib.PurePosixPath(path).parents}
    for path, text in tree.prose_and_code():
        if not path.endswith(".md"):
            continue
        for match in LINK.finditer(text):
            if re.match(r"[a-z]+:", match[1]):
                continue
            target = os.path.normpath(pathlib.PurePosixPath(path).parent / match[1])
            if target not in known and target not in folders:
                yield Finding(path, line_of(text, match.start()), f"leads nowhere: {match[1]}")


@check("layers", "only the includes that tools/layers.py allows")
def layer_edges(tree):
    for fault in layers.check_tree(tree.root, tree.files):
        yield Finding(fault.path, fault.line, fault.text)


def main(arguments):
    parser = argparse.ArgumentParser(description="Checks the house rules.")
    parser.add_argument("--list", action="store_true", help="name the checks and stop")
    parser.add_argument("--only", action="append", metavar="NAME", help="run only this check")
    parser.add_argument("--changed", action="store_true", help="look only at uncommitted files")
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args(arguments)
    if options.list:
        for name, (_, about) in CHECKS.items():
            print(f"{name:18} {about}")
        return 0
    names = options.only or list(CHECKS)
    for name in names:
        if name not in CHECKS:
            parser.error(f"no check is called {name}; see --list")
    tree = Tree(options.root, options.changed)
    faults = notes = 0
    for name in names:
        for finding in sorted(set(CHECKS[name][0](tree))):
            faults += not finding.is_note
            notes += finding.is_note
            place = f"{finding.path}:{finding.line}" if finding.line else finding.path
            print(f"{place}: {'note: ' if finding.is_note else ''}[{name}] {finding.text}")
    print(f"tidy: {len(names)} checks, {faults} faults, {notes} places to look at again")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
