"""What rows of quantised models have besides time: size, and how much of the choice is the same."""

from kinetoscope.tune import quantization, stopwatch
from kinetoscope.tune.result import SweepResult
from kinetoscope.tune.work import SEED


def add_quality(contest, score):
    """Columns size_bytes, agreement and score of all that take part; its model's size counts as
    that of the parameters where they are packed away."""
    for runner, row in contest.entries():
        output = runner.outcome(contest.work.check_mode, SEED).outputs
        row["size_bytes"] = quantization.saved_bytes(runner.model)
        row["agreement"] = _same_choice(contest.right.outputs, output)
        row["score"] = None if score is None else float(score(runner.step()))
        if row["peak_bytes"] is not None and row["size_bytes"] is not None:
            known = stopwatch.bytes_of(runner.model)
            row["peak_bytes"] += max(row["size_bytes"] - known, 0)


def _same_choice(expected, output):
    """Share of the samples for which the largest output is the same one; None where the first
    output is no table."""
    if not expected or expected[0][1].dim() < 2 or not expected[0][1].is_floating_point():
        return None
    right, found = expected[0][1], output[0][1]
    return float((right.argmax(-1) == found.argmax(-1)).float().mean())


def choose_smallest(result):
    """The result with the smallest of those that are right and not slower as its best."""
    fine = ("baseline", "faster", "no_difference")
    rows = [r for r in result.rows if r["verdict"] in fine and r.get("size_bytes") is not None]
    best = min(rows, key=lambda row: row["size_bytes"], default=result.best_row)
    code = () if best is None else best["code"]
    return SweepResult(result.kind, result.rows, best, code, result.notes)
