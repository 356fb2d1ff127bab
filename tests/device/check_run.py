#!/usr/bin/env python3
"""Checks what a report says about the recorded run of train_gpu.py against unprofiled runs.

    check_run.py REPORT.json SLOW_LOG FIXED_LOG

The logs are the outputs of train_gpu.py without and with `--fixed`, neither of them recorded. One
line a check, `ok` or `FAILED`; the exit status is 0 when all are ok. On a machine without a GPU the
checks that need one are named and left out.
"""

import json
import math
import pathlib
import re
import sys

STEPS_RECORDED = 4
TOLERANCE = 0.10  # of the step


class Checks:
    def __init__(self):
        self.has_failed = False

    def check(self, is_good, text):
        self.has_failed |= not is_good
        print(f"  {'ok' if is_good else 'FAILED'}: {text}")


def read_log(path):
    text = pathlib.Path(path).read_text()
    median = re.search(r"^median_step_ms ([0-9.]+)$", text, re.MULTILINE)
    device = re.search(r"^device (.+)$", text, re.MULTILINE)
    if not median or not device:
        sys.exit(f"check_run: no step time in {path}")
    return float(median[1]), device[1]


def check_trace(checks, doc):
    statuses = [one["status"] for one in doc["inputs"]]
    checks.check(statuses == ["ok"], f"inputs read without repair: {statuses}")
    steps = doc["steps"]
    checks.check(len(steps) == STEPS_RECORDED, f"steps: {len(steps)}")
    adds_up = all(sum(step["breakdown_ns"].values()) == step["dur_ns"] for step in steps)
    checks.check(adds_up, "the breakdown of each step adds up to it")
    times = ", ".join(f"{step['dur_ns'] / 1e6:.2f}" for step in steps)
    print(f"  recorded steps: {times} ms")


def check_devices(checks, doc):
    devices = doc["devices"]
    checks.check(len(devices) > 0, f"device rows: {len(devices)}")
    for device in devices:
        util = device["util"]
        is_share = isinstance(util, float | int) and math.isfinite(util) and 0 < util <= 1
        checks.check(is_share, f"device {device['device']} {device['name']}: util {util}")
        total = device["busy_ns"] + device["idle_ns"]
        checks.check(total == device["span_ns"], f"busy and idle are the span: {total} ns")


def check_finding(checks, doc, slow_ms, fixed_ms):
    ids = [finding["id"] for finding in doc["findings"]]
    checks.check(ids[:1] == ["input.starved"], f"findings: {ids}")
    if ids[:1] != ["input.starved"]:
        return
    saving = doc["findings"][0]["saving_ns_per_step"]
    low_ms, high_ms = saving["low"] / 1e6, saving["high"] / 1e6
    measured_ms = slow_ms - fixed_ms
    room_ms = TOLERANCE * slow_ms
    off_ms = max(low_ms - measured_ms, measured_ms - high_ms, 0)
    checks.check(
        off_ms <= room_ms,
        f"saving [{low_ms:.2f}, {high_ms:.2f}] ms holds the measured {measured_ms:.2f} ms: "
        f"off by {off_ms:.2f}, allowed {room_ms:.2f}",
    )
    checks.check(high_ms <= 1.5 * low_ms, f"high / low = {high_ms / max(low_ms, 1e-9):.3f}")


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: check_run.py REPORT.json SLOW_LOG FIXED_LOG")
    doc = json.loads(pathlib.Path(sys.argv[1]).read_bytes())
    slow_ms, device = read_log(sys.argv[2])
    fixed_ms, _ = read_log(sys.argv[3])
    print(f"  unprofiled on {device}: slow {slow_ms:.2f} ms, fixed {fixed_ms:.2f} ms a step")
    checks = Checks()
    check_trace(checks, doc)
    if device == "cpu":
        print("  skipped: device rows and the measured saving need a GPU")
    else:
        check_devices(checks, doc)
        check_finding(checks, doc, slow_ms, fixed_ms)
    return 1 if checks.has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
