"""The changes that tune_model tries, one stage each: when they mean something, their settings."""

import os

import torch

from kinetoscope.tune import checkpointing, model_sweeps
from kinetoscope.tune.setting import BACKENDS

NAMES = (
    "precision",
    "channels_last",
    "attention",
    "optimizer",
    "compile",
    "threads",
    "dataloader",
    "checkpointing",
)
_NOT_BY_ITSELF = ("checkpointing",)

# Which stage repairs what a finding says (docs/rules).
STAGE_OF_FINDING = {
    "attention.backend": "attention",
    "attention.materialized": "attention",
    "cpu.oversubscribed": "threads",
    "fusion.pointwise": "compile",
    "host.python_gap": "compile",
    "input.starved": "dataloader",
    "launch.bound": "compile",
    "layout.transposes": "channels_last",
    "memory.allocator_churn": "checkpointing",
    "optimizer.unfused": "optimizer",
    "precision.fp32_matmul": "precision",
}


def name_of(field):
    """The stage that sets a field of Setting."""
    return {"checkpointed": "checkpointing"}.get(field, field)


def meant_for(work, optimizer, loader, what):
    """Names of the stages to try. ValueError: an unknown one is asked for."""
    if what is not None and set(what) - set(NAMES):
        raise ValueError(f"what can be tuned is {', '.join(NAMES)}, not {list(what)}")
    wanted = [n for n in NAMES if n not in _NOT_BY_ITSELF] if what is None else list(what)
    meant = {
        "attention": lambda: model_sweeps.calls_attention(work),
        "channels_last": lambda: model_sweeps.has_images(work.model),
        "checkpointing": lambda: work.is_training,
        "dataloader": lambda: loader is not None,
        "optimizer": lambda: (
            work.is_training
            and optimizer is not None
            and bool(model_sweeps.optimizer_kinds(optimizer))
        ),
        "threads": lambda: work.device.type == "cpu" and len(os.sched_getaffinity(0)) > 1,
    }
    return [name for name in NAMES if name in wanted and meant.get(name, lambda: True)()]


def order(names, report):
    """Those that findings of the report point to first, in its order; the others as they are."""
    findings = getattr(report, "findings", report) or []
    ranked = [STAGE_OF_FINDING.get(finding["id"]) for finding in findings]
    first = [name for name in dict.fromkeys(ranked) if name in names]
    return first + [name for name in names if name not in first]


def settings(name, work, current, optimizer=None):
    """What a stage tries on top of the current Setting."""
    return [current.with_(**change) for change in _CHANGES[name](work, optimizer)]


def _precisions(work, _):
    is_ampere = work.device.type == "cuda" and torch.cuda.get_device_capability(work.device) >= (
        8,
        0,
    )
    names = ["tf32"] * is_ampere + ["bfloat16", "float16"]
    return [{"precision": name} for name in names]


def _backends(work, _):
    names = BACKENDS if work.device.type == "cuda" else ("flash",)
    return [{"attention": name} for name in names]


def _kinds(work, optimizer):
    return [{"optimizer": kind} for kind in model_sweeps.optimizer_kinds(optimizer)]


def _modes(work, _):
    is_gpu = work.device.type == "cuda"
    return [{"compile": mode} for mode in ("default", *("reduce-overhead",) * is_gpu)]


def _threads(work, _):
    now = torch.get_num_threads()
    return [{"threads": count} for count in model_sweeps.thread_counts() if count != now]


def _blocks(work, _):
    names = tuple(checkpointing.blocks_of(work.model))
    choices = dict.fromkeys((names[::2], names)) if names else ()
    return [{"checkpointed": choice} for choice in choices]


_CHANGES = {
    "attention": _backends,
    "channels_last": lambda work, _: [{"channels_last": True}],
    "checkpointing": _blocks,
    "compile": _modes,
    "optimizer": _kinds,
    "precision": _precisions,
    "threads": _threads,
}
