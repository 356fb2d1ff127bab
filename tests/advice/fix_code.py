"""Runs the code of a fix in a small program that has what the code takes for granted.

`run(code, folder)` raises what the code raises; `folder` is for what it writes. Code is Python;
`...` among the arguments of a call stands for those that the program passes already. Names are
those of `program()`, Python's own, and what the code imports or defines itself: a rule whose code
needs another name adds it there, and says in the code or the text of the fix what it stands for.
"""

import ast
import builtins
import contextlib
import gc
import os
import pathlib
from types import SimpleNamespace
from unittest import mock

import torch
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Model(nn.Linear):
    """Also as DistributedDataParallel wraps it, and as models of texts are called."""

    def forward(self, *inputs, **named):
        if named:
            return SimpleNamespace(past_key_values=named.get("past_key_values"))
        return super().forward(inputs[0]) if len(inputs) == 1 else inputs[0]

    def no_sync(self):
        return contextlib.nullcontext()

    def register_comm_hook(self, state, hook):
        assert callable(hook)


class Encoded(dict):
    """What tokenizers give."""

    def to(self, device):
        return self


def tokenize(texts, **options):
    """Numbers of one text, or tensors of several."""
    if isinstance(texts, str):
        return [ord(letter) for letter in texts]
    ids = torch.ones(len(texts), 8, dtype=torch.long)
    return Encoded(input_ids=ids, attention_mask=torch.ones_like(ids))


def program(folder):
    """Names that a training or inference program has, as fixes call them."""
    model, batch = Model(8, 8), torch.ones(4, 8)
    names = {
        "torch": torch,
        "nn": nn,
        "F": functional,
        "os": os,
        "gc": gc,
        "DataLoader": DataLoader,
        "DistributedSampler": DistributedSampler,
        "DistributedDataParallel": DistributedDataParallel,
    }
    names |= {"device": "cpu", "rank": 0, "world_size": 1, "step": 100, "size": 50257}
    names |= {"dataset": TensorDataset(torch.ones(16, 8)), "batch_size": 2, "num_workers": 1}
    names |= {"model": model, "batch": batch, "micro_batches": [batch, batch]}
    names |= {"loss": model(batch).sum(), "loss_of": torch.sum, "losses": []}
    names |= {"total": torch.zeros(()), "running": torch.zeros(())}
    names |= dict.fromkeys("qkv", torch.ones(1, 2, 1, 8))
    names |= {"heads": 2, "head_dim": 8, "length_max": 16, "at": 3}
    names |= {"texts": ["a b", "c"], "tokenizer": tokenize, "token": batch, "past": ()}
    names |= {"tokens": torch.ones(4), "cache": (), "event": mock.Mock(), "schedule": len}
    names |= {"cores": os.sched_getaffinity(0)}
    names |= {"blocks": [nn.Linear(8, 8), nn.Linear(8, 8)]}
    names |= {"x": torch.ones(2, 2, 2, 2), "images": torch.ones(2, 3, 8, 8)}
    names |= {"scores": batch, "list_of_numbers": [1.0, 2.0], "numbers": [1, 2]}
    names |= {"samples": ["ccc", "a", "bb"], "averages": [batch], "grads": [batch], "beta": 0.9}
    names |= {"state": model.state_dict(), "path": str(folder / "checkpoint")}
    names |= {"save": lambda: None}
    return names


class WithoutEllipsis(ast.NodeTransformer):
    def visit_Call(self, node):
        self.generic_visit(node)
        node.args = [a for a in node.args if not is_ellipsis(a)]
        return node


def is_ellipsis(node):
    return isinstance(node, ast.Constant) and node.value is ...


def unknown_names(tree, names):
    """Read, but neither given nor Python's own nor bound by the code."""
    nodes = list(ast.walk(tree))
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    imports = [n for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))]
    bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    bound |= {(a.asname or a.name).split(".")[0] for n in imports for a in n.names}
    read = {n.id for n in nodes if isinstance(n, ast.Name)}
    return sorted(read - bound - set(names) - set(dir(builtins)))


def run(code, folder):
    tree = ast.parse(code)
    assert tree.body, "nothing but comments"
    names = program(pathlib.Path(folder))
    assert not unknown_names(tree, names), unknown_names(tree, names)
    tree = ast.fix_missing_locations(WithoutEllipsis().visit(tree))
    with contextlib.ExitStack() as stack:
        if not torch.cuda.is_available():  # pinned memory needs a driver
            as_it_is = mock.patch.object(torch.Tensor, "pin_memory", lambda tensor: tensor)
            stack.enter_context(as_it_is)
        stack.enter_context(mock.patch.dict(os.environ))
        exec(compile(tree, "fix.code", "exec"), names)
    return names


def failures(codes, folder):
    """A sentence for each (id, code) that does not run."""
    out = []
    for id, code in sorted(codes):
        try:
            run(code, folder)
        except Exception as wrong:  # whatever it is, the fix is wrong
            out.append(f"{id}: {type(wrong).__name__}: {wrong}\n{code}")
    return out
