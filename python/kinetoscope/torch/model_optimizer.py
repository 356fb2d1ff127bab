"""ModelOptimizer: changes a model where that is measured to help, and says what else might.

Each change is tried on a copy: its results must be those of the model, and it must be faster
beyond noise (checkpointing: smaller), else it is undone. What cannot be tried is only suggested.
"""

import inspect
import logging

LOG = logging.getLogger("kinetoscope")
SECONDS = 10.0

# Switch of the config -> what is tried while it is on.
_STAGES = {
    "use_mixed_precision": "precision",
    "use_channels_last": "channels_last",
    "use_compile": "compile",
    "gradient_checkpointing": "checkpointing",
}
_BLIND = {
    "precision": "run the model under autocast",
    "channels_last": "keep images and weights in channels_last",
    "compile": "compile the model with torch.compile",
    "checkpointing": "checkpoint the activations of its blocks",
}


class ModelOptimizer:
    """`config`: a ProfilingConfig, whose use_mixed_precision (and mixed_precision_dtype),
    use_channels_last, use_compile, gradient_checkpointing and enable_optimizations say what may be
    tried; None for one with defaults."""

    def __init__(self, config=None):
        self.config = config
        self._batch = None
        self.forget()

    # ---------------------------------------------------------------- what a recording says

    def suggest(self, report):
        """Takes the findings of a kinetoscope.Report; {} when optimizations are switched off."""
        self._findings = list(report.findings) if self._is_on else []
        self._suggested = [_suggestion(finding) for finding in self._findings]
        return self.get_optimization_summary()

    def forget(self):
        """Nothing is suggested and nothing applied; the last batch stays."""
        self._suggested = []
        self._findings = []
        self._blind = []
        self._applied = []
        self._result = None

    def see(self, batch):
        """Keeps the last batch that a profiler saw, to try changes with: (inputs, target)."""
        self._batch = batch

    @property
    def findings(self):
        """Those of the last report, the most important first."""
        return list(self._findings)

    @property
    def _is_on(self):
        return self.config is None or self.config.enable_optimizations

    # ---------------------------------------------------------------- what is changed

    def optimize_model(
        self,
        model,
        summary=None,
        example_inputs=None,
        loss_fn=None,
        inplace=False,
        seconds=SECONDS,
    ):
        """The model with what makes it faster with the same results, within the tolerances of
        docs/tuning_python.md: a copy, or with inplace=True the model itself (or, compiled, what
        torch.compile makes of it).

        summary: of get_profile_summary, or a Report or list of findings, which then say what is
        tried first. example_inputs: a tensor, a tuple of arguments or a dict; without them the last
        batch that the profiler saw; without that either nothing is applied, but suggested.
        A model in training mode, or with a loss_fn(output, target), is tried in whole training
        steps, for which example_inputs may be a pair (inputs, target); without a loss_fn a tuple of
        two is that unless the model needs two arguments. `seconds` bounds the timing.
        A model that cannot be copied, or is wrapped for several processes, comes back as it is,
        and the summary says why.
        """
        return self._optimize(
            model, stages_of(self.config), summary, example_inputs, loss_fn, inplace, seconds
        )

    def _apply_memory_optimizations(self, model, example_inputs=None, loss_fn=None, inplace=False):
        """As optimize_model, of what saves memory: checkpointing, for a model that trains."""
        return self._optimize(
            model, ["checkpointing"], None, example_inputs, loss_fn, inplace, SECONDS
        )

    apply_memory_optimizations = _apply_memory_optimizations

    def _optimize(self, model, stages, summary, inputs, loss_fn, inplace, seconds):
        from kinetoscope.tune.model_copy import Refusal  # needs all of torch

        self._applied, self._result, self._blind = [], None, []
        stages = stages if self._is_on else []
        try:
            return self._tried(model, stages, summary, inputs, loss_fn, inplace, seconds)
        except Refusal as failure:
            self._blind = [_blind(stage, str(failure)) for stage in stages]
            return model

    def _tried(self, model, stages, summary, inputs, loss_fn, inplace, seconds):
        from kinetoscope.tune.model_copy import copied, refuse_wrapped

        refuse_wrapped(model)
        made = model if inplace else copied(model)
        batch = self._batch_of(inputs, model, loss_fn)
        if batch is None:
            self._blind = [_blind(stage, "there is no batch to try it with") for stage in stages]
            return made
        if not stages:
            return made
        self._result = self._tune(model, batch, loss_fn, stages, summary, seconds)
        return self._apply(made, model, batch, loss_fn)

    def _batch_of(self, inputs, model, loss_fn):
        """(inputs, target), or None."""
        from kinetoscope.tune.work import as_batch

        if inputs is None:
            return self._batch
        is_pair = isinstance(inputs, tuple) and len(inputs) == 2
        is_target = loss_fn is not None or (model.training and _needed_arguments(model) < 2)
        return as_batch(inputs) if is_pair and is_target else (inputs, None)

    def _tune(self, model, batch, loss_fn, stages, summary, seconds):
        from kinetoscope.tune.combination import tune_batches

        is_report = hasattr(summary, "findings") or isinstance(summary, list)
        return tune_batches(
            model,
            [batch],
            loss_fn=loss_fn,
            training=True if loss_fn is not None else None,
            report=summary if is_report else self._findings,
            what=stages,
            precisions=_precisions_of(self.config, model.training or loss_fn is not None),
            seconds=seconds,
        )

    def _apply(self, made, model, batch, loss_fn):
        """The model with the changes that were kept; without any, where together and on the model
        itself they are not what they were in the trial."""
        from kinetoscope.tune.applied import apply
        from kinetoscope.tune.contest import Contest
        from kinetoscope.tune.model_copy import copied
        from kinetoscope.tune.work import Work

        setting = self._result.setting
        if not self._result.applied:
            return made
        training = True if loss_fn is not None else None
        work = Work(model, [batch], loss_fn, is_training=training)
        with Contest(work, loss_steps=0) as contest:
            tried = apply(copied(model), setting, work.device.type)
            reason = contest.reason_against(tried, setting)
        if reason is not None:
            LOG.warning("Changes of a model are left out: %s", reason)
            self._blind = [_blind(name, reason) for name in self._result.applied]
            return made
        self._applied = self._result.applied
        return apply(made, setting, work.device.type)

    # ---------------------------------------------------------------- what became of it

    def get_optimization_summary(self):
        """optimizations_applied: names of what the last call changed; total_optimizations: how many
        these are. suggested: [{id, title, fix, code, saving_ns_per_step}], from findings and from
        what could not be tried. rejected: [{name, reason}] of what was tried and not kept; code:
        lines that make the same changes; tried: a row for each variant; speedup: of all together,
        None when nothing was tried."""
        tried = [] if self._result is None else self._result.rows
        return {
            "optimizations_applied": list(self._applied),
            "total_optimizations": len(self._applied),
            "suggested": [*self._suggested, *self._blind],
            "rejected": [_rejection(row) for row in tried[1:] if not _is_kept(row, self._result)],
            "code": [] if not self._applied else self._result.code,
            "tried": [_plain(row) for row in tried],
            "speedup": self._result.improvements["speedup_factor"] if self._applied else None,
        }


def _needed_arguments(model):
    """How many its forward cannot be called without."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):  # of what is not written in Python
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in parameters)


def stages_of(config, has_loop=False):
    """Names of what the config's switches allow to try. has_loop: of a whole training loop, where
    more than the model can be changed."""
    if config is None:
        return ["precision"]
    if not config.enable_optimizations:
        return []
    stages = [stage for switch, stage in _STAGES.items() if getattr(config, switch)]
    if has_loop:
        stages += ["attention"] * config.optimize_attention + ["optimizer", "dataloader"]
    return stages


def benchmark_report(result):
    """A TuneResult as benchmark_optimizations gives it."""
    sides = (("baseline", result.baseline, []), ("optimized", result.optimized, result.applied))
    report = {name: _side(row, names) for name, row, names in sides}
    report["optimized"]["code"] = result.code
    report["improvements"] = result.improvements
    report["tried"] = [_plain(row) for row in result.rows]
    return report


def _side(row, names):
    return {
        "step_time": row["time"],
        "interval": row["interval"],
        "peak_memory_bytes": row["peak_bytes"],
        "optimizations": list(names),
        "code": [],
    }


def _precisions_of(config, is_training):
    """float16 needs its loss scaled in training, which is the program's to do: then bfloat16."""
    wanted = "auto" if config is None else config.mixed_precision_dtype
    names = ["bfloat16", "float16"] if wanted == "auto" else [wanted]
    return [name for name in names if not (is_training and name == "float16")]


def _suggestion(finding):
    fix = finding.get("fix") or {}
    return {
        "id": finding["id"],
        "title": finding["title"],
        "fix": fix.get("text"),
        "code": fix.get("code"),
        "saving_ns_per_step": finding.get("saving_ns_per_step"),
    }


def _blind(stage, reason):
    title = f"{_BLIND.get(stage, stage)}: not tried, {reason}"
    return {"id": stage, "title": title, "fix": None, "code": None, "saving_ns_per_step": None}


def _is_kept(row, result):
    changes = result.setting.changes()
    config = row["config"]
    return bool(config) and all(changes.get(key) == value for key, value in config.items())


def _rejection(row):
    return {"name": row["label"], "reason": row["reason"] or f"it is not faster: {row['verdict']}"}


def _plain(row):
    from kinetoscope.tune.result import plain

    return plain(row)
