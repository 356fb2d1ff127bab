"""One sentence why there is no trace, or what is missing in it; None when all is well."""

from kinetoscope.torch.window_limits import BYTES, SECONDS, STEPS

STEP_WORDS = {
    "mark": "marked steps",
    "optimizer": "optimizer steps",
    "loader": "batches",
    "inference": "calls of the model",
    None: "steps",
}
LOST = "torch.profiler keeps its events in memory until the window closes"


def explain(spec, finder, notes, ended_by, is_recording, is_over, has_met_other):
    """`ended_by` has an entry for each trace; `is_recording` is a window for times."""
    if "failure" in notes:
        return notes["failure"]
    words = STEP_WORDS[finder.source_name]
    if is_recording:
        which = f"window {len(ended_by) + 1}" if ended_by else "the window"
        count = finder.step_count
        return f"The program ended after {count} {words} or more, inside {which}: {LOST}."
    if ended_by:
        if ended_by[-1] != STEPS:
            return _missing_steps(spec, notes, ended_by[-1])
        if is_over and len(ended_by) < spec.repeat:
            return f"There are {len(ended_by)} of {spec.repeat} windows: the program ended."
        return None
    if has_met_other:
        return (
            "The program uses torch.profiler itself, and only one can run at a time; "
            "`kscope report` reads the trace that the program writes."
        )
    if finder.step_count == 0:
        return _no_steps(finder)
    return _too_few_steps(spec, finder.step_count, words)


def _missing_steps(spec, notes, ended_by):
    reasons = {
        SECONDS: f"it had lasted {spec.seconds_max:g} seconds",
        BYTES: f"more would exceed the size limit of {spec.bytes_max} bytes (--max-trace)",
    }
    reason = reasons.get(ended_by, ended_by)
    return f"The window holds {notes['steps_recorded']} of {spec.active} steps: {reason}."


def _no_steps(finder):
    if finder.mark_name is not None:
        return f'torch was imported, but no record_function named "{finder.mark_name}" ended.'
    if finder.has_optimizer:
        return "An optimizer was made, but no optimizer made a step."
    return (
        "torch was imported, but no optimizer made a step, "
        "no DataLoader was asked for two batches, and no module was called."
    )


def _too_few_steps(spec, step_count, words):
    if spec.wait is None:
        return (
            f"The program made {step_count} {words}, and ended before five in a row took about "
            "the same time: say when to record with --steps WAIT:WARMUP:ACTIVE."
        )
    return (
        f"The program made {step_count} {words}, and the window needs "
        f"{spec.step_count}: ask for fewer with --steps WAIT:WARMUP:ACTIVE."
    )
