"""Rules that need what `kscope run` noted beside the events of a trace."""

import json

from rule_cases.case import Finding, three
from rule_cases.recording import Recording, steps

STEP = 10_000
WALL = 4 * STEP * 1000  # ns


def on_cpu(process):
    """Four steps of 10 ms of one operator, without a GPU."""
    recording = Recording(has_gpu=False, process=process)
    for number in range(1, 5):
        recording.start()
        recording.op("aten::addmm", STEP - 4)
        recording.end(number)
    return recording


def padded(tokens):
    masks = {"mask_batches": 4, "mask_slots": 1000, "mask_longest": max(tokens, 850)}
    return on_cpu(masks | {"mask_tokens": tokens})


def input_padding():
    scaling = STEP - 4 - 10
    return three(
        "input.padding",
        padded,
        fires=(700, "CPU steps of 10 ms; of 1000 tokens 300 are padding, 150 behind the longest."),
        found=[Finding("input.padding", 0.7 * 0.15 * scaling, 0.3 * scaling)],
        hand="Of 9996 us less 10 a call: high 0.3, low 0.7 x 0.15, since 700 / 0.75 > 850 stay.",
        near=(805, "195 of 1000 tokens are padding: 19.5 %, of 20."),
        asks="at least 20 % of the tokens",
        silent=(1000, "Nothing is padding."),
    )


def crowded(wait):
    process = {"threads": 5 if wait else 4, "cores": 4, "local_ranks": 1, "wall_ns": WALL}
    process |= {"cpu_ns": 3 * WALL, "thread_run_ns": WALL // 5, "thread_wait_ns": wait}
    return on_cpu(process)


def cpu_oversubscribed():
    return three(
        "cpu.oversubscribed",
        crowded,
        fires=(
            WALL // 10,
            "5 threads on 4 cores, 3 in use; the steps' thread waits 0.1, runs 0.2.",
        ),
        found=[Finding("cpu.oversubscribed", 500, 8000)],
        hand="Of 10 ms, low: 0.1 less 0.2 x (5 / 4 - 1). High: 0.1 and the 0.7 that it is blocked.",
        near=(WALL * 48 // 1000, "It waits 4.8 % of the time for a core."),
        asks="at least 5 % of the time",
        silent=(0, "4 threads on 4 cores."),
    )


def throttled(ns):
    process = {"threads": 2, "cores": 4, "local_ranks": 1, "wall_ns": WALL, "cpu_ns": WALL}
    process |= {"thread_run_ns": WALL // 2, "quota_us": 20_000, "period_us": 10_000}
    return on_cpu(process | {"periods": 4, "throttled": 1, "throttled_ns": ns})


def cpu_throttled():
    return three(
        "cpu.throttled",
        throttled,
        fires=(
            WALL // 10,
            "The quota is 2 cores; of 40 ms the group is held back for 4 in a period.",
        ),
        found=[Finding("cpu.throttled", 500, 1000)],
        hand="Of 10 ms, high: 4 / 40. Low: half of that, as if on both cores at once.",
        near=(WALL * 48 // 1000, "1.92 of 40 ms: 4.8 %."),
        asks="at least 5 % of the time",
        silent=(0, "The group is never held back."),
    )


def clocks(look):
    """A run: its trace, and what the monitor saw of the GPU."""
    mhz, reasons = look
    recording = steps(lambda r, number: r.pause(2000 - 14), STEP, pid=77)
    look = {"index": 0, "busy_percent": 90, "sm_mhz": mhz, "sm_mhz_max": 2000, "reasons": reasons}
    look |= {"temperature_c": 87, "power_mw": 500_000, "power_limit_mw": 700_000}
    look |= {"power_default_mw": 700_000, "pids": [77]}
    lines = (json.dumps({"time_ns": second * 10**9, "gpus": [look]}) for second in range(1, 7))
    return {"run/rank0.json": recording, "run/monitor.jsonl": "\n".join(lines) + "\n"}


def gpu_throttled():
    gap = Finding("host.python_gap", 1986, 1986)
    return three(
        "gpu.throttled",
        clocks,
        fires=(
            (1600, 32),
            "Steps of 10 ms, 7998 us of work; heat holds the clock at 0.8.",
        ),
        found=[gap, Finding("gpu.throttled", 0, 0.2 * 7998, "heat", rank=0)],
        hand="High: 0.2 of 7998 us. Low: nothing is sure. For the rest, code, the GPU idles.",
        near=((1880, 32), "At 1880 of 2000 MHz the GPU loses 0.06 of 7998 us, 4.8 % of 10 ms."),
        near_found=[gap],
        silent=((1600, 4), "It is the board's own limit of power, which nobody can raise."),
        silent_found=[gap],
        inputs="run",
    )


RULES = (input_padding, cpu_oversubscribed, cpu_throttled, gpu_throttled)
