"""Goal: the stubs of the package say what is there. Method: each name and signature of the stubs is
compared with the module. tests/packaging has mypy's stubtest look at what is installed."""

import ast
import inspect
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "kinetoscope"


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    from kinetoscope._extension import extension

    assert extension.__name__ == "kinetoscope._kscope", "make build makes the extension"
    return extension


def stub_of(name):
    return ast.parse((PACKAGE / name).read_text()).body


def parameters_of(node):
    """(name, kind, whether it has a default), without self and cls."""
    args = node.args
    defaults = [None] * (len(args.posonlyargs + args.args) - len(args.defaults)) + args.defaults
    out = []
    for arg, default in zip(args.posonlyargs + args.args, defaults, strict=True):
        kind = "POSITIONAL_ONLY" if arg in args.posonlyargs else "POSITIONAL_OR_KEYWORD"
        out.append((arg.arg, kind, default is not None))
    if args.kwarg:
        out.append((args.kwarg.arg, "VAR_KEYWORD", False))
    return [entry for entry in out if entry[0] not in ("self", "cls")]


def real_parameters(callable_):
    return [
        (parameter.name, parameter.kind.name, parameter.default is not parameter.empty)
        for parameter in inspect.signature(callable_).parameters.values()
        if parameter.name != "self"
    ]


def members(body):
    return [node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


def test_every_signature_is_the_module_s(module):
    body = stub_of("_kscope.pyi")
    nodes = {node.name: node for node in members(body)}
    public = {name for name in vars(module) if not name.startswith("__")}
    assert public == set(nodes)
    for name, node in nodes.items():
        real = getattr(module, name)
        if isinstance(node, ast.FunctionDef):
            assert parameters_of(node) == real_parameters(real), name
        else:
            check_class(node, real)


def check_class(node, real):
    assert isinstance(real, type)
    for method in members(node.body):
        assert hasattr(real, method.name), method.name
        is_property = any(getattr(d, "id", "") == "property" for d in method.decorator_list)
        if method.name == "__new__":
            assert parameters_of(method) == real_parameters(real)
        elif not method.name.startswith("__") and not is_property:
            assert parameters_of(method) == real_parameters(getattr(real, method.name))
    stubbed = {method.name for method in members(node.body)}
    public = {name for name in vars(real) if not name.startswith("_")}
    assert public == {name for name in stubbed if not name.startswith("_")}


def test_each_stub_is_of_a_module(module):
    import importlib

    for stub in PACKAGE.rglob("*.pyi"):
        words = stub.relative_to(PACKAGE.parent).with_suffix("").parts
        importlib.import_module(".".join(word for word in words if word != "__init__"))


def test_stand_in_has_the_same_names(module):
    import kinetoscope
    from kinetoscope import _without_extension as stand_in

    for node in members(stub_of("_kscope.pyi")):
        if node.name in kinetoscope._PROFILERS:
            assert not hasattr(stand_in, node.name), "they cannot be without the extension"
            continue
        other = getattr(stand_in, node.name)
        for name in vars(getattr(module, node.name)) if isinstance(other, type) else ():
            if not name.startswith("_"):
                assert hasattr(other("n") if node.name != "RecordingError" else other, name), name


def test_package_stub_names_what_can_be_had(module):
    import kinetoscope

    for node in stub_of("__init__.pyi"):
        for alias in getattr(node, "names", ()):
            assert getattr(kinetoscope, alias.name) is not None
    assert {"profile_operation", "start_recording", "categories"} <= set(dir(kinetoscope))
    with pytest.raises(AttributeError):
        _ = kinetoscope.nothing
