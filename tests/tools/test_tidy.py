"""Goal: each check finds the fault that it is for. Method: a clean tree, and one planted fault."""

import pytest
import tidy
from tree_fixture import make_tree, write_file

API = "/* Says which. */\nKS_API int ks_which(void);\n"
CLEAN = {
    "README.md": "See [the page](docs/formats/kineto.md) or [all](docs/).\n",
    "include/kscope/kscope.h": "#ifndef K\n#define K\n#define KS_API\n" + API + "#endif\n",
    "core/base/arena.h": "#ifndef A\n#define A\nint ks_arena(void);\n#endif\n",
    "core/base/arena.c": '#include "base/arena.h"\n\nint ks_arena(void)\n{\n    return 1;\n}\n',
    "core/read/registry.c": "void *all[] = {&ks_reader_kineto, &ks_reader_named};\n",
    "core/read/kineto.c": "const struct ks_reader ks_reader_kineto = {\n    .push = p,\n};\n",
    "core/read/named.c": "const struct ks_reader ks_reader_named = {\n    .sniff = s,\n};\n",
    "core/show/registry.c": "int z;\n",
    "fuzz/fuzz_kineto.c": "int y;\n",
    "docs/formats/kineto.md": "Text.\n",
    "tests/golden/kineto/plain/input.json": "{}",
    "cli/main.c": "int main(void)\n{\n    printf(1);\n    exit(1);\n}\n",
}


def findings(root, name, **options):
    return sorted(set(tidy.CHECKS[name][0](tidy.Tree(root, **options))))


def planted(tmp_path, name, path, content):
    """What check `name` says about a clean tree to which one file was added or changed."""
    return findings(make_tree(tmp_path, {**CLEAN, path: content}), name)


def test_each_check_has_a_test():
    text = open(__file__, encoding="utf-8").read()
    assert [name for name in tidy.CHECKS if f'"{name}"' not in text] == []


@pytest.mark.parametrize("name", sorted(tidy.CHECKS))
def test_clean_tree_is_silent(tmp_path, name):
    assert findings(make_tree(tmp_path, CLEAN), name) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("core/store/x.c", "char *p = malloc(3);"),
        ("core/store/x.c", "free(p);"),
        ("core/read/x.c", "p = strdup (q);"),
        ("launch/x.c", "p = realloc(p, 2);"),
        ("cli/x.c", "p = calloc(1, 2);"),
        ("core/base/x.c", "strcpy(p, q);"),
        ("core/base/x.c", "sprintf(p, q);"),
        ("cli/x.c", "n = atoi(q);"),
        ("core/show/x.c", "t = strtok(q, r);"),
        ("core/show/x.c", "t = alloca(3);"),
        ("core/show/x.c", "printf(q);"),
        ("core/base/x.c", "puts(q);"),
        ("launch/x.c", "exit(3);"),
        ("core/read/x.c", "abort();"),
    ],
)
def test_banned_call(tmp_path, path, line):
    (finding,) = planted(tmp_path, "banned-calls", path, f"/* Why. */\n{line}\n")
    assert (finding.path, finding.line, finding.is_note) == (path, 2, False)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("core/base/x.c", "p = malloc(3);"),
        ("core/base/x.c", "fprintf(stderr, q); abort();"),
        ("core/store/x.c", "/* malloc(3) was tried. */"),
        ("core/store/x.c", "// free(p) comes later"),
        ("core/store/x.c", 'say("printf(1)");'),
        ("core/store/x.c", "pool->free(p); ks_free(p); a.exit(1); my_malloc(2);"),
        ("core/store/x.c", "snprintf(p, 3, q);"),
        ("launch/x.c", "_exit(125);"),
        ("cli/x.c", "fputs(p, stdout);"),
        ("tests/unit/test_x.c", "p = malloc(3);"),
    ],
)
def test_call_in_its_place(tmp_path, path, line):
    assert planted(tmp_path, "banned-calls", path, line + "\n") == []


def test_lone_headers(tmp_path):
    (finding,) = planted(tmp_path, "lone-headers", "core/base/x.h", "size_t f(void);\n")
    assert "size_t" in finding.text


def test_own_header_first(tmp_path):
    text = '#include <stdio.h>\n#include "base/arena.h"\n'
    (finding,) = planted(tmp_path, "own-header-first", "core/base/arena.c", text)
    assert finding.line == 1


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("\nKS_API int a(void);\n", 1),
        ("/* One. */\nKS_API int a(void);\n\nKS_API int b(void);\n", 1),
        ("/* Both. */\nKS_API int a(void);\nKS_API int b(int x,\n    int y);\n", 0),
        ("/* ---- writing */\n\nKS_API int a(void);\n", 1),
    ],
)
def test_documented_api(tmp_path, text, count):
    assert len(planted(tmp_path, "documented-api", "include/kscope/x.h", text)) == count


FIVE_DEEP = "if (a) { while (b) { do { if (c) { if (d) { g(); }}}}}"
SEVEN_PARAMETERS = "int f(int a, int b, int c, int d,\n  int e, int (*g)(int, int), int h)"


def function(body, signature="int f(void)"):
    return f"{signature}\n{{\n{body}\n}}\n"


@pytest.mark.parametrize(
    ("path", "text", "word"),
    [
        ("core/base/x.c", "int a;\n" * 901, "901 lines"),
        ("core/base/x.h", "int a;\n" * 201, "201 lines"),
        ("include/kscope/x.h", "int a;\n" * 901, "901 lines"),
        ("core/base/x.c", function("    g();\n" * 70), "lines, look again at 70"),
        ("core/base/x.c", function(FIVE_DEEP), "5 levels"),
        ("core/base/x.c", function("    if (a) b;\n" * 21), "22 branches"),
        ("core/base/x.c", function("g();", SEVEN_PARAMETERS), "7 parameters"),
        ("tools/x.py", "def f():\n" + "    g()\n" * 70, "71 lines"),
    ],
)
def test_sizes(tmp_path, path, text, word):
    found = planted(tmp_path, "sizes", path, text)
    assert [word in finding.text for finding in found] == [True]
    assert all(finding.is_note for finding in found)


def test_sizes_of_folders(tmp_path):
    files = {f"core/show/m{number}.c": "int a;\n" for number in range(31)}
    files["tests/golden/kineto/large/input.json"] = "x" * (tidy.CASE_BYTES_MAX + 1)
    found = findings(make_tree(tmp_path, {**CLEAN, **files}), "sizes")
    assert [finding.path for finding in found] == ["core/show", "tests/golden/kineto/large"]


@pytest.mark.parametrize(
    "text",
    [
        "/* tidy: long, a flat table. */\n" + function("    g();\n" * 140),
        function("struct s a[] = {{{{{{1}}}}}};"),
        function("f(a, b, c, d, e, f, g);"),
        "struct s {\n    int a;\n};\n",
    ],
)
def test_sizes_stay_silent(tmp_path, text):
    assert planted(tmp_path, "sizes", "core/base/x.c", text) == []


@pytest.mark.parametrize(
    "path",
    ["core/base/string_util.c", "tools/misc/x.py", "core/common/x.h", "core/base/CamelCase.c"],
)
def test_file_names(tmp_path, path):
    (finding,) = planted(tmp_path, "file-names", path, "\n")
    assert finding.path == path


def test_unique_names(tmp_path):
    (finding,) = planted(tmp_path, "unique-names", "core/store/arena.h", "\n")
    assert "core/base/arena.h" in finding.text


@pytest.mark.parametrize(
    "gone",
    [
        "core/read/kineto.c",
        "fuzz/fuzz_kineto.c",
        "docs/formats/kineto.md",
        "tests/golden/kineto/plain/input.json",
    ],
)
def test_readers(tmp_path, gone):
    files = {path: text for path, text in CLEAN.items() if path != gone}
    (finding,) = findings(make_tree(tmp_path, files), "readers")
    assert finding.text.startswith("reader kineto: no ")


def test_blobs(tmp_path):
    big = b"\0" * (tidy.FILE_BYTES_MAX + 1)
    (finding,) = planted(tmp_path, "blobs", "tests/golden/kineto/plain/input.bin", big)
    assert "at most" in finding.text


def test_blobs_of_traces(tmp_path):
    size = tidy.TRACE_BYTES_MAX
    files = {f"tests/data/{number}.gz": b"\0" * size for number in range(4)}
    files["tests/data/4.gz"] = b"\0" * (size + 1)
    found = findings(make_tree(tmp_path, files), "blobs")
    assert [finding.path for finding in found] == ["tests/data/", "tests/data/4.gz"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("machine-paths", "see /wor" + "k/main for more"),
        ("machine-paths", "cd /hom" + "e/ann/src"),
        ("machine-paths", "read .." + "/shared/x"),
        ("registry-hosts", "pip install --index-" + "url=x y"),
        ("registry-hosts", "from files.python" + "hosted.org"),
        ("registry-hosts", "registry.npm" + "js.org"),
        ("unfinished", "// TO" + "DO later"),
        ("unfinished", "# FIX" + "ME"),
    ],
)
def test_words(tmp_path, name, text):
    (finding,) = planted(tmp_path, name, "docs/x.md", f"Text.\n{text}\n")
    assert finding.line == 2


@pytest.mark.parametrize(
    "text",
    [
        "element.innerHTML = name;",
        "element.insertAdjacentHTML('beforeend', name);",
        "element.setAttribute('onclick', name);",
        "element.setAttribute('style', name);",
        "eval(name);",
        "await fetch(name);",
        "new WebSocket(name);",
    ],
)
def test_page_markup(tmp_path, text):
    (finding,) = planted(tmp_path, "page-markup", "web/src/x.ts", f"// Text.\n{text}\n")
    assert finding.line == 2
    assert planted(tmp_path / "b", "page-markup", "web/src/x.ts", "e.textContent = name;\n") == []


def test_one_file_of_the_page_may_ask_but_not_make_markup(tmp_path):
    path = "web/src/data/served.ts"
    assert planted(tmp_path, "page-markup", path, "await fetch(name);\n") == []
    assert planted(tmp_path / "b", "page-markup", path, "element.innerHTML = name;\n") != []


def test_words_of_test_data_are_free(tmp_path):
    path = "tests/golden/kineto/plain/input.json"
    for name in ("machine-paths", "registry-hosts", "unfinished", "lines"):
        text = "/roo" + "t/x.py TO" + "DO " + "x" * 200
        assert planted(tmp_path / name, name, path, text) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("core/base/x.c", "x" * 101 + "\n"),
        ("tools/x.sh", "echo \n"),
        ("core/base/x.c", "\tint a;\n"),
    ],
)
def test_lines(tmp_path, path, text):
    (finding,) = planted(tmp_path, "lines", path, text)
    assert finding.line == 1


def test_links(tmp_path):
    (finding,) = planted(tmp_path, "links", "docs/x.md", "[a](y.md) [b](https://x.y/z) [c](#d)\n")
    assert finding.text == "leads nowhere: y.md"


def test_layers(tmp_path):
    (finding,) = planted(tmp_path, "layers", "cli/main.c", '#include "base/arena.h"\n')
    assert "may not include" in finding.text


def test_changed_looks_only_at_uncommitted_files(tmp_path):
    root = make_tree(tmp_path, {**CLEAN, "core/show/old.c": "puts(a);\n"})
    write_file(root, "core/show/new.c", "puts(a);\n")
    write_file(root, "core/read/kineto.c", "puts(b);\n")
    found = findings(root, "banned-calls", changed_only=True)
    assert [finding.path for finding in found] == ["core/read/kineto.c", "core/show/new.c"]


def test_exit_status_and_list(tmp_path, capsys):
    make_tree(tmp_path, {**CLEAN, "core/show/x.c": "puts(a);\n"})
    assert tidy.main(["--root", str(tmp_path), "--only", "lines"]) == 0
    assert tidy.main(["--root", str(tmp_path)]) == 1
    assert "core/show/x.c:1: [banned-calls]" in capsys.readouterr().out
    assert tidy.main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(tidy.CHECKS)
