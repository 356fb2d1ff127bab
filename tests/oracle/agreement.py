"""Compares a report with the twin, number by number.

Each function gives a list of sentences, one for each difference; none means equal.
"""

from collections import defaultdict
from fractions import Fraction

OPERATOR_TIMES = (
    "calls",
    "cpu_ns",
    "self_cpu_ns",
    "self_exclusive_ns",
    "device_ns",
    "self_device_ns",
)
OPERATOR_BYTES = ("self_cpu_bytes", "self_device_bytes")


def compare_rows(part, got, want):
    """`want` says which columns count; rows are dicts by key."""
    out = [f"{part}: no row {key}" for key in want if key not in got]
    out += [f"{part}: row {key} should not be there" for key in got if key not in want]
    for key in want:
        for column, value in want[key].items():
            if key in got and got[key].get(column) != value:
                out.append(f"{part} {key} {column}: got {got[key].get(column)}, want {value}")
    return out


def by_key(rows, *columns):
    return {tuple(row[c] for c in columns): row for row in rows}


def devices(doc, twin):
    got = by_key(doc["devices"], "rank", "device")
    return compare_rows("devices", got, twin.devices())


def streams(doc, twin):
    got = by_key(doc["streams"], "rank", "device", "stream")
    return compare_rows("streams", got, twin.streams())


def kernels(doc, twin):
    got = by_key(doc["kernels"], "kind", "name", "device")
    return compare_rows("kernels", got, twin.kernels())


def copies(doc, twin):
    want = twin.copies()
    got = by_key(doc["copies"], "kind")
    out = []
    for kind, row in want.items():
        rate = row.pop("bytes_per_s")
        mine = got.get((kind,), {}).get("bytes_per_s")
        is_equal = mine == rate if rate is None or mine is None else near(mine, rate)
        if not is_equal:
            out.append(f"copies {kind} bytes_per_s: got {mine}, want {rate}")
    return out + compare_rows("copies", got, {(kind,): row for kind, row in want.items()})


def summed(rows, columns, *keys):
    """Rows of several places added up."""
    out = {}
    for row in rows:
        key = (row["where"]["rank"], row["where"]["operator"], *(row[k] for k in keys))
        mine = out.setdefault(key, dict.fromkeys(columns, 0))
        for column in columns:
            mine[column] += row[column] or 0
    return out


def syncs(doc, twin):
    got = summed(doc["syncs"], ("count", "wait_ns", "total_ns", "operator_ns"), "call")
    return compare_rows("syncs", got, twin.syncs())


def copy_sites(doc, twin):
    columns = ("count", "bytes", "device_ns", "total_ns", "operator_ns")
    got = summed(doc["copy_sites"], columns, "call", "kind")
    return compare_rows("copy_sites", got, twin.copy_sites())


def near(value, exact):
    """A double printed with at least twelve digits."""
    return abs(Fraction(value) - exact) <= abs(exact) / 10**12 + Fraction(1, 10**12)


def links(doc, twin):
    counts, delays = twin.links()
    want = {f"links.{key}": value for key, value in counts.items()}
    want |= {f"links.delay_ns.{key}": value for key, value in delay_summary(delays).items()}
    mine = doc["links"]
    got = {f"links.{key}": value for key, value in mine.items()}
    got |= {f"links.delay_ns.{key}": value for key, value in mine["delay_ns"].items()}
    return [f"{k}: got {got.get(k)}, want {v}" for k, v in want.items() if got.get(k) != v]


def delay_summary(delays):
    """The median of an even number is the mean of the middle two, rounded down."""
    if not delays:
        return {"min": None, "median": None, "max": None}
    middle = delays[(len(delays) - 1) // 2] + delays[len(delays) // 2]
    return {"min": delays[0], "median": middle // 2, "max": delays[-1]}


def steps(doc, twin):
    """ProfilerStep# by all columns; steps found in another way by what their span holds."""
    origin = int(doc["origin_ns"] or 0)
    got = by_key(doc["steps"], "rank", "index")
    for row in got.values():
        row["start"] = origin + row["start_ns"]
    want = by_key(twin.steps(), "rank", "index")
    marked = {rank for rank, _ in want}
    for source in twin.sources:
        if source.rank not in marked:
            rows = [row for row in got.values() if row["rank"] == source.rank]
            want |= by_key([spanned(row, source, twin) for row in rows], "rank", "index")
    return compare_rows("steps", got, want)


def spanned(row, source, twin):
    begin = row["start"] - source.base_ns
    parts = twin.breakdown(source, begin, begin + row["dur_ns"])
    return {"rank": row["rank"], "index": row["index"], "breakdown_ns": parts}


def idle(doc, twin):
    """Why devices, streams and steps are idle."""
    origin = int(doc["origin_ns"] or 0)
    out = []
    for source in twin.sources:
        mine = {
            key: [row for row in doc[key] if row["rank"] == source.rank]
            for key in ("devices", "streams", "steps")
        }
        steps = []
        for row in mine["steps"]:
            row = row | {"start": origin + row["start_ns"]}
            row["host_start"] = origin + row["host_start_ns"]
            row["thread"] = twin.step_thread(source, row)
            steps.append(row)
        by_device, by_stream, by_step = twin.idle(source, steps)
        want = {("device", d): causes for d, causes in by_device.items()}
        want |= {("stream", *key): causes for key, causes in by_stream.items()}
        want |= {("step", s["index"]): c for s, c in zip(steps, by_step, strict=True)}
        got = {("device", d["device"]): d["idle_by_cause_ns"] for d in mine["devices"]}
        for s in mine["streams"]:
            got["stream", s["device"], s["stream"]] = s["idle_by_cause_ns"]
        got |= {("step", s["index"]): s["idle_by_cause_ns"] for s in mine["steps"]}
        out += compare_rows(f"idle {source.rank}", got, want)
    return out


def operators(doc, twin, by_shape=False):
    got = defaultdict(dict)
    for row in doc["operators"]:
        key = (row["kind"], row["name"])
        key += (row["input_shapes"] or "[]",) if by_shape else ()
        if key in got:
            return [f"operators: row {key} is there twice"]
        got[key] = row
    columns = OPERATOR_TIMES
    if all(s.top.get("profile_memory") for s in twin.sources):
        columns += OPERATOR_BYTES
    if all(s.top.get("record_shapes") for s in twin.sources):
        columns += ("flops",)
    table = twin.operators(by_shape)
    want = {key: {c: row[c] for c in columns} for key, row in table.items()}
    return compare_rows("operators", got, want)


def inputs(doc, twin):
    got = [row["events"] for row in doc["inputs"]]
    want = twin.total_events()
    return [] if got == want else [f"inputs events: got {got}, want {want}"]


PARTS = (
    inputs,
    devices,
    streams,
    kernels,
    copies,
    copy_sites,
    syncs,
    links,
    steps,
    idle,
    operators,
)


def differences(doc, twin):
    """All differences of a report with every part of the twin."""
    return [line for part in PARTS for line in part(doc, twin)]


def holds_together(doc):
    """What must be true of any report, whatever the input."""
    out = []
    for d in doc["devices"]:
        where = f"device {d['rank']}/{d['device']}"
        out += [] if d["busy_ns"] <= d["span_ns"] else [f"{where}: busier than its span"]
        out += [] if d["busy_ns"] + d["idle_ns"] == d["span_ns"] else [f"{where}: busy and idle"]
        out += [] if d["busy_ns"] <= d["work_sum_ns"] else [f"{where}: union over sum"]
        out += [] if d["kernel_sum_ns"] <= d["work_sum_ns"] else [f"{where}: kernels over work"]
        if d["util"] is not None and not 0 <= d["util"] <= 1:
            out.append(f"{where}: util {d['util']}")
        if d["exposed_comm_ns"] is not None and d["exposed_comm_ns"] > d["comm_ns"]:
            out.append(f"{where}: more exposed than communication")
    for key, total in (("devices", "idle_ns"), ("streams", "gap_ns"), ("steps", "idle_ns")):
        for row in doc[key]:
            causes = row["idle_by_cause_ns"]
            if sum(causes.values()) != row[total] or min(causes.values()) < 0:
                out.append(f"{key} {row['rank']}: idle {causes} of {row[total]}")
    for s in doc["steps"]:
        if s["idle_ns"] > s["dur_ns"]:
            out.append(f"step {s['rank']}/{s['index']}: idle for longer than it lasts")
        parts = s["breakdown_ns"]
        if sum(parts.values()) != s["dur_ns"] or min(parts.values()) < 0:
            out.append(f"step {s['rank']}/{s['index']}: breakdown {parts} of {s['dur_ns']}")
        parts = s["phases_ns"]
        if sum(parts.values()) != s["dur_ns"] or min(parts.values()) < 0:
            out.append(f"step {s['rank']}/{s['index']}: phases {parts} of {s['dur_ns']}")
        if s["host_ns"] is not None and s["host_ns"] < 0:
            out.append(f"step {s['rank']}/{s['index']}: host span {s['host_ns']}")
    for o in doc["operators"]:
        if o["self_exclusive_ns"] < 0 or o["cpu_ns"] < 0 or o["calls"] < 1:
            out.append(f"operator {o['name']}: {o}")
    for k in doc["kernels"]:
        if not k["min_ns"] * k["calls"] <= k["total_ns"] <= k["max_ns"] * k["calls"]:
            out.append(f"kernel {k['name']}: {k}")
    return out
