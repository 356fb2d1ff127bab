"""Which stacks of sampler_programs.py are possible, from its source text alone."""

import ast
import pathlib
import re

PROGRAMS = pathlib.Path(__file__).with_name("sampler_programs.py")
MADE = re.compile(r"<made (\d+)>")

# What a line calls without naming it, or by another name.
HIDDEN = {"Thing": {"Thing.__init__"}, "value": {"Thing.value"}, "thing": {"Thing.__getitem__"}}
BY_C = {"sorted": {"o_key"}, "sum": {"g_inner"}}


def names_of(tree):
    """Functions that an expression may call."""
    names = set()
    for node in ast.walk(tree):
        name = None
        if isinstance(node, ast.Name):
            name = node.id
        elif isinstance(node, ast.Attribute):
            name = node.attr
        if name is not None:
            names.add(name)
            names |= HIDDEN.get(name, set()) | BY_C.get(name, set())
    if "thing" in names:
        names.add("Thing.__call__")
    return names


class Legal:
    """For each line of the programs: the names on the statement that is there."""

    def __init__(self):
        self.names = {}
        self.functions = {}
        tree = ast.parse(PROGRAMS.read_text())
        self.visit(tree, "")

    def visit(self, tree, prefix):
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                name = prefix + node.name
                self.functions[name] = (node.lineno, node.end_lineno)
                self.visit(node, name + ("." if isinstance(node, ast.ClassDef) else ".<locals>."))
                continue
            if isinstance(node, ast.stmt):
                self.add_statement(node)
            self.visit(node, prefix)

    def add_statement(self, node):
        """A compound statement's own part is what comes before its body."""
        parts = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
        found = set().union(*(names_of(part) for part in parts)) if parts else set()
        first = node.lineno
        last = max([first, *(getattr(part, "end_lineno", first) or first for part in parts)])
        for line in range(first, last + 1):
            self.names[line] = self.names.get(line, set()) | found


def is_ours(frame):
    return frame.file.endswith("sampler_programs.py")


def fault_of_frame(frame, legal):
    if not is_ours(frame) or frame.name == "<module>":
        return None
    if frame.name not in legal.functions:
        return f"no function {frame.name}"
    first, last = legal.functions[frame.name]
    if not first - 1 <= frame.line <= last:
        return f"line {frame.line} is not in {frame.name}"
    return None


def fault_of_made(caller, callee):
    """Both are code with a number; <module> calls top, top calls leaf."""
    number = MADE.match(callee.file)[1]
    order = {f"leaf_{number}": f"top_{number}", f"top_{number}": "<module>"}
    if callee.name == "<module>":
        return None if is_ours(caller) and caller.name == "made" else "made by another"
    if callee.name not in order:
        return f"{callee.name} in {callee.file}"
    is_right = caller.file == callee.file and caller.name == order[callee.name]
    return None if is_right else f"{caller.name} ({caller.file}) calls {callee.name}"


def fault_of_call(caller, callee, legal):
    if MADE.match(callee.file):
        return fault_of_made(caller, callee)
    if MADE.match(caller.file):
        return f"{caller.file} calls {callee.name}"
    if not is_ours(callee):
        return None  # the library's own, or what it is asked for
    if not is_ours(caller):
        is_target = caller.name == "Thread.run"
        return None if is_target else f"{caller.name} calls {callee.name}"
    named = legal.names.get(caller.line, set())
    if callee.name in named or callee.name.split(".")[-1] in named:
        return None
    if caller.name == "main" and "PROGRAMS" in named:
        return None
    return f"{caller.name}:{caller.line} calls {callee.name}"


def fault_of(stack, legal):
    """What is impossible about the stack, or None."""
    base = stack[0]
    if not (base.name == "<module>" and is_ours(base)) and base.name != "Thread._bootstrap":
        return f"begins with {base.name}"
    for frame in stack:
        fault = fault_of_frame(frame, legal)
        if fault:
            return fault
    for caller, callee in zip(stack, stack[1:], strict=False):
        fault = fault_of_call(caller, callee, legal)
        if fault:
            return fault
    return None


def judge(recorded):
    """(looks, wrong looks, distinct faults)."""
    legal = Legal()
    looks, wrong, faults = 0, 0, {}
    for _, stack, weight in recorded.weights():
        looks += weight
        fault = fault_of(stack, legal)
        if fault:
            wrong += weight
            faults[fault] = faults.get(fault, 0) + weight
    return looks, wrong, faults
