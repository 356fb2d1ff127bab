"""Parameters that cannot learn: frozen, unused, behind a graph that is cut, in no optimizer.

The first steps are looked at. Modules whose parameters got no gradient have a hook in one more
step, which says whether they are called at all.
"""

import functools

from kinetoscope.debug.model_parts import inner_model, parts_of
from kinetoscope.torch.tensor_tree import tensors_of

STEPS = 3
NAMES_MAX = 20


class GraphCheck:
    def __init__(self, session):
        self._session = session
        self._step = 0
        self._without = {}  # name -> parameter, without a gradient until now
        self._optimized = set()
        self._frozen = []
        self._calls = {}  # name of a module -> whether its output has a graph
        self._handles = []

    def step_begins(self, optimizer, scaler):
        if self._step >= STEPS:
            return
        given = [p for group in optimizer.param_groups for p in group["params"]]
        self._optimized.update(map(id, given))
        self._frozen += [self._session.name_of(p) for p in given if not p.requires_grad]
        without = {self._session.name_of(p): p for p in given if p.requires_grad and p.grad is None}
        if self._step == 0:
            self._without.update(without)
            self._watch_modules()
        else:
            self._without = {n: p for n, p in self._without.items() if p.grad is None}

    def step_ended(self, optimizer, scaler):
        self._step += 1
        if self._step == STEPS:
            self.finish()
            self._report()

    def finish(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _watch_modules(self):
        wanted = {name.rpartition(".")[0] for name in self._without}
        for model in self._session.models():
            for name, module in parts_of(model):
                if name in wanted:
                    called = functools.partial(self._called, name)
                    self._handles.append(module.register_forward_hook(called))

    def _called(self, name, module, args, output):
        self._calls[name] = any(t.requires_grad for t in tensors_of(output))

    def _report(self):
        by_kind = {"frozen": list(dict.fromkeys(self._frozen)), "detached": [], "unused": []}
        for name in self._without:
            is_called = name.rpartition(".")[0] in self._calls
            by_kind["detached" if is_called else "unused"].append(name)
        by_kind["not_optimized"] = [
            name
            for model in self._session.models()
            for name, p in inner_model(model).named_parameters()
            if p.requires_grad and id(p) not in self._optimized
        ]
        for kind, names in by_kind.items():
            if names:
                self._tell(kind, names)

    def _tell(self, kind, names):
        text = {
            "frozen": "in the optimizer, but frozen (requires_grad is False)",
            "detached": "used in the forward, but no gradient comes back: the graph is cut behind"
            f" module {_module_before_cut(names)}",
            "unused": "in the optimizer, but no forward uses it",
            "not_optimized": "wants gradients, but is in no optimizer",
        }[kind]
        facts = {"cause": kind, "parameters": names[:NAMES_MAX], "count": len(names)}
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        self._session.incident("graph", f"{kind} {names[0]}", facts, f"{shown}: {text}")


def _module_before_cut(names):
    return names[-1].rpartition(".")[0] or "(the model)"
