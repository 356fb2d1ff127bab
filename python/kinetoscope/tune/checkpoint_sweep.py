"""sweep_checkpointing: what making activations again saves, and what that costs, block by block."""

from kinetoscope.tune import checkpointing
from kinetoscope.tune.contest import AS_IT_IS, Contest
from kinetoscope.tune.model_sweeps import SECONDS
from kinetoscope.tune.result import SweepResult
from kinetoscope.tune.setting import Setting
from kinetoscope.tune.work import Work, as_batch

SINGLE_MAX = 6
SAVED_SHARE_MIN = 0.02


def sweep_checkpointing(
    model,
    inputs,
    blocks=None,
    *,
    target=None,
    loss_fn=None,
    optimizer=None,
    seconds=SECONDS,
    tolerance=None,
    bytes_max=None,
):
    """Trains with activations of blocks made again in the backward pass.

    blocks: names of modules; without any those of the longest part of the model that is a list or
    a sequence (checkpointing.blocks_of). Rows: each block alone (of many that are alike the first
    one), every second one, all. `bytes_saved` is how much lower the peak of a step is,
    `bytes_saved_per_ms` that for each millisecond which the step is longer (None where it is not).

    best: as it is, when that fits into bytes_max; else the quickest that does. Without bytes_max
    the one that saves most for its time, of those that save 2 % of the peak at least. The other
    arguments are those of sweep_precision. ValueError: no blocks.
    """
    work = Work(model, [as_batch(inputs, target)], loss_fn, optimizer, True)
    names = checkpointing.blocks_of(model) if blocks is None else list(blocks)
    if not names:
        raise ValueError("this model has no list or sequence of blocks: name some")
    with Contest(work, tolerance) as contest:
        contest.admit(AS_IT_IS, {"checkpointed": []})
        for label, chosen in _choices(model, names):
            contest.admit(Setting(checkpointed=chosen), {"checkpointed": list(chosen)}, label)
        result = contest.result("checkpointing", contest.race(seconds))
    for row in result.rows:
        _add_saving(row, result.rows[0])
    best = _choose(result.rows, bytes_max)
    return SweepResult(result.kind, result.rows, best, best["code"] if best else (), result.notes)


def _choices(model, names):
    singles = names
    if len(names) > SINGLE_MAX:
        kinds = {checkpointing.kind_of(model.get_submodule(n)): n for n in reversed(names)}
        singles = list(kinds.values())[::-1]
    choices = [(name, (name,)) for name in singles]
    if len(names) > 2:
        choices.append(("every second block", tuple(names[::2])))
    if len(names) > 1:
        choices.append(("all blocks", tuple(names)))
    return choices


def _add_saving(row, baseline):
    row["bytes_saved"] = row["bytes_saved_per_ms"] = None
    if row["peak_bytes"] is None or baseline["peak_bytes"] is None or row is baseline:
        return
    row["bytes_saved"] = baseline["peak_bytes"] - row["peak_bytes"]
    if row["time"] is not None and row["time"] > baseline["time"]:
        row["bytes_saved_per_ms"] = row["bytes_saved"] / ((row["time"] - baseline["time"]) * 1e3)


def _choose(rows, bytes_max):
    timed = [r for r in rows if r["time"] is not None and r["peak_bytes"] is not None]
    if not timed or timed[0] is not rows[0]:
        return timed[0] if timed else None
    if bytes_max is not None:
        fitting = [row for row in timed if row["peak_bytes"] <= bytes_max]
        return min(fitting, key=lambda row: row["time"], default=None)
    least = SAVED_SHARE_MIN * timed[0]["peak_bytes"]
    saving = [row for row in timed[1:] if row["bytes_saved"] >= least]
    if not saving:
        return timed[0]
    return max(saving, key=_saved_for_time)


def _saved_for_time(row):
    """What costs no time that can be measured is best."""
    per_ms = row["bytes_saved_per_ms"]
    return float("inf") if per_ms is None else per_ms
