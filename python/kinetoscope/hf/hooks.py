"""TransformersProfilingHooks: forward and backward of the parts that a transformer is made of."""

import re

import torch

from kinetoscope.torch.profiling_hooks import TorchProfilingHooks

# What the last part of a module's name, or its class, says about it; the first that fits counts.
_KINDS = (
    ("embeddings", re.compile(r"embed|^wte$|^wpe$|^shared$", re.I)),
    ("head", re.compile(r"lm_head|^cls$|classifier|^score$|qa_outputs|pooler|MLMHead", re.I)),
    ("norm", re.compile(r"norm|^ln_", re.I)),
    ("attention", re.compile(r"attn|attention", re.I)),
    ("feed_forward", re.compile(r"mlp|ffn|feed_forward|feedforward|DenseReluDense|LayerFF", re.I)),
)
_BLOCKS = re.compile(r"(Layer|Block|DecoderLayer|EncoderLayer)$")


class TransformersProfilingHooks(TorchProfilingHooks):
    """As TorchProfilingHooks; `register_model_hooks(model)` watches the parts of a transformer:
    the model, its blocks, and in them embeddings, attention, feed-forward, norms, and the head, not
    each linear layer. `get_times()` has each by its dotted name; `get_summary()` adds them up."""

    def __init__(self, profiler=None):
        super().__init__(profiler)
        self._kinds = {}  # label -> kind

    def register_model_hooks(self, model):
        """Hooks on all parts, outermost first. A model without parts that have such names is
        watched by all of its modules. Returns self. TypeError: it is no module."""
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"hooks are for a torch.nn.Module, not {type(model).__name__}")
        parts = [(name, m, kind_of(name, m)) for name, m in model.named_modules()]
        found = [part for part in _outermost(parts) if part[2] is not None]
        if len(found) < 2:
            return super().register_model_hooks(model)
        for name, module, kind in found:
            label = name or type(module).__name__
            self._kinds[label] = kind
            self.register_forward_hook(module, label)
            self.register_backward_hook(module, label)
        return self

    def get_summary(self):
        """{kind: {modules, forward, backward, forward_share, backward_share}}: seconds in all
        modules of a kind, and their share of the model's. Kinds: model, block, embeddings,
        attention, feed_forward, norm, head. A block's time is that of what is in it, too."""
        times, summary = self.get_times(), {}
        for label, ways in times.items():
            kind = self._kinds.get(label)
            if kind is None:
                continue
            row = summary.setdefault(kind, {"modules": 0, "forward": 0.0, "backward": 0.0})
            row["modules"] += 1
            for way in ("forward", "backward"):
                row[way] += ways.get(way, {}).get("total", 0.0)
        return {kind: _with_shares(row, summary.get("model")) for kind, row in summary.items()}


def kind_of(name, module):
    """What a module of this dotted name is in a transformer; None: a part of something else."""
    if name == "":
        return "model"
    last, class_name = name.rpartition(".")[2], type(module).__name__
    if last.isdigit() and _BLOCKS.search(class_name):
        return "block"
    for kind, pattern in _KINDS:
        if pattern.search(last):
            return kind
    return None


def _outermost(parts):
    """Without parts that lie in one of the same kind, or in a head or embeddings."""
    kept = []
    closed = {}  # dotted name -> kind
    for name, module, kind in parts:
        around = [closed[p] for p in _ancestors(name) if p in closed]
        if kind in around or {"head", "embeddings", "attention", "feed_forward"} & set(around):
            continue
        if kind is not None and kind not in ("model", "block"):
            closed[name] = kind
        kept.append((name, module, kind))
    return kept


def _ancestors(name):
    words = name.split(".")
    return [".".join(words[:count]) for count in range(1, len(words))]


def _with_shares(row, whole):
    shares = {}
    for way in ("forward", "backward"):
        total = whole[way] if whole else 0.0
        shares[f"{way}_share"] = row[way] / total if total else None
    return {**row, **shares}
