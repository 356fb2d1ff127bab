"""What every report promises of its findings, whatever the trace.

`broken(doc)` gives a sentence for each promise that a report does not keep.
"""

import math

KINDS = ("saving_ns_per_step", "saving_in_trace_ns_per_step")
SLACK_NS = 1  # means are rounded down


def mean_step_ns(doc):
    complete = [step["dur_ns"] for step in doc["steps"] if step["complete"]]
    return sum(complete) / len(complete) if complete else None


def unreal_numbers(node, path="report"):
    if isinstance(node, dict):
        return [s for key, value in node.items() for s in unreal_numbers(value, f"{path}.{key}")]
    if isinstance(node, list):
        return [s for i, value in enumerate(node) for s in unreal_numbers(value, f"{path}[{i}]")]
    return [f"{path} is {node}"] if isinstance(node, float) and not math.isfinite(node) else []


def confidence_of(saving):
    low, high = saving["low"], saving["high"]
    return "high" if high <= low + low // 2 else "medium" if high <= 3 * low else "low"


def of_finding(finding, step_ns):
    id = finding["id"]
    for kind in KINDS:
        low, high = finding[kind]["low"], finding[kind]["high"]
        if not 0 <= low <= high:
            yield f"{id}: {kind} from {low} to {high}"
        if step_ns is not None and high > step_ns + SLACK_NS:
            yield f"{id}: {kind} of {high} in a step of {step_ns:.0f}"
    if not 0 <= finding["share"] <= 1:
        yield f"{id}: share {finding['share']}"
    if finding["confidence"] != confidence_of(finding[KINDS[0]]):
        yield f"{id}: confidence {finding['confidence']} for {finding[KINDS[0]]}"
    if finding["impact"] == "time" and finding["primary"] and finding[KINDS[0]]["high"] == 0:
        yield f"{id}: saves no time"
    if not finding["fix"]["text"] or not finding["verify"] or not finding["evidence"]:
        yield f"{id}: fix, check or evidence is missing"


def of_groups(findings):
    """The first of each group stands for it, and no other."""
    seen = set()
    for finding in findings:
        if finding["primary"] != (finding["group"] not in seen):
            yield f"{finding['id']}: primary is {finding['primary']} in {finding['group']}"
        seen.add(finding["group"])


def of_sums(findings, step_ns):
    for kind in KINDS:
        first = {}
        for finding in findings:
            if finding["impact"] == "time":
                first.setdefault(finding["group"], finding[kind]["high"])
        if step_ns is not None and sum(first.values()) > step_ns + SLACK_NS:
            yield f"{kind}: {sum(first.values())} saved in a step of {step_ns:.0f}"


def of_plan(doc, step_ns):
    """One entry for each primary finding that saves time; steps get shorter by its saving."""
    wanted = [f for f in doc["findings"] if f["primary"] and f["impact"] == "time"]
    plan = doc["plan"]
    if step_ns is None:
        return
    if [entry["finding"] for entry in plan] != [finding["id"] for finding in wanted]:
        yield f"plan {[entry['finding'] for entry in plan]} of {[f['id'] for f in wanted]}"
        return
    before = {"low": step_ns, "high": step_ns}
    for finding, entry in zip(wanted, plan, strict=True):
        after, saving = entry["step_ns_after"], finding[KINDS[0]]
        if not 0 <= after["low"] <= after["high"]:
            yield f"plan: {finding['id']} leaves {after}"
        for end, saved in (("low", saving["high"]), ("high", saving["low"])):
            if abs(before[end] - saved - after[end]) > SLACK_NS:
                yield f"plan: {finding['id']} makes {before} to {after} by {saving}"
        before = after


def of_checks(doc):
    """Each rule has found something, or says why not; each finding is the only one of its id."""
    found = [finding["id"] for finding in doc["findings"]]
    silent = [check["id"] for check in doc["checked"]]
    for id in sorted(set(found + silent)):
        if found.count(id) + silent.count(id) != 1:
            yield f"{id}: found {found.count(id)} times, silent {silent.count(id)} times"
    for check in doc["checked"]:
        if check["state"] not in ("fine", "could_not") or not check["reason"]:
            yield f"{check['id']}: {check['state']} {check['reason']!r}"


def broken(doc):
    step_ns = mean_step_ns(doc)
    findings = doc["findings"]
    out = unreal_numbers(doc)
    for finding in findings:
        out += of_finding(finding, step_ns)
    if [finding["order"] for finding in findings] != list(range(1, len(findings) + 1)):
        out.append(f"order {[finding['order'] for finding in findings]}")
    out += of_groups(findings)
    out += of_sums(findings, step_ns)
    out += of_plan(doc, step_ns)
    out += of_checks(doc)
    return out
