#!/usr/bin/env python3
"""Grow a real PyTorch (Kineto) GPU trace into a large, realistic one. Standard library only.

    gen_trace.py --source REAL.json[.gz|.xz] --out BIG.json --size-mb 100
        [--gz] [--gz-only] [--gz-level 6] [--style classic|modern|compact]
        [--rank 0] [--world-size 1] [--seed 1] [--no-stack] [--no-memory] [--no-shapes]

What it does
 * takes the whole profiler steps of the source (from the first ProfilerStep to the start of the
   last one), the GPU work launched in them and their flow arrows;
 * repeats them, shifted in time so that no track overlaps itself, with new correlation ids,
   External ids, flow ids, Ev Idx, sequence and step numbers;
 * varies batch sizes in "Input Dims", some kernel template numbers and the durations of leaf
   events (only ever shorter, so nesting and order stay true);
 * adds what the source lacks: Input Dims / Input type / Concrete Inputs on cpu_op,
   python_function frames around top-level ops, [memory] instants;
 * writes as Kineto writes: host activities first, then runtime and device activities, then
   metadata and spans, "ts" in microseconds with 3 decimals. classic = the two-line events of
   PyTorch 2.1 to 2.9; modern = one key a line (Kineto of 2026); compact = no white space (what
   json.dump(separators) gives).
The output is a function of the source, the options and the seed alone.
"""

import argparse
import gzip
import json
import lzma
import os
import sys
import zlib
from dataclasses import dataclass, field

NS = 1000
BASE_NS = 1727743122000000000
FIRST_NS = 4458676524648797  # relative to the base, as newer Kineto writes times
CALLS = ("cuda_runtime", "cuda_driver")
HOST = ("cpu_op", "user_annotation", "python_function", "cpu_instant_event")
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync")
LEAVES = {"kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver"}
RENUMBERED = {
    "External id",
    "external id",
    "correlation",
    "Ev Idx",
    "Sequence number",
    "Input Dims",
    "Input type",
    "Concrete Inputs",
}

# ------------------------------------------------------------------ reading


class Num(str):
    """A JSON number with a decimal point, kept as its text: no digit is lost."""


def load(path):
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(os.path.splitext(path)[1], open)
    with opener(path, "rb") as f:
        return json.loads(f.read(), parse_float=Num)


def to_ns(value):
    """'1712195495505582.988' (us) or an int (us) -> integer ns."""
    text = str(value)
    if "e" in text or "E" in text:
        return int(round(float(text) * NS))
    whole, _, fraction = text.partition(".")
    ns = int(whole) * NS
    rest = int((fraction + "000")[:3]) if fraction else 0
    return ns - rest if whole.startswith("-") else ns + rest


class Rng:
    """xorshift64*: the output does not depend on the Python version."""

    def __init__(self, seed):
        self.state = (seed * 0x9E3779B97F4A7C15 + 0x1234567) & 0xFFFFFFFFFFFFFFFF or 1

    def next(self):
        x = self.state
        x ^= x >> 12
        x ^= (x << 25) & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 27
        self.state = x
        return ((x * 0x2545F4914F6CDD1D) & 0xFFFFFFFFFFFFFFFF) >> 33


def hash32(text):
    return zlib.crc32(text.encode())


def quote(value):
    return json.dumps(value, ensure_ascii=False)


def arg_text(value):
    if isinstance(value, Num):
        return str(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return "[" + ", ".join(arg_text(x) for x in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quote(k)}: {arg_text(x)}" for k, x in value.items()) + "}"
    return json.dumps(value)


# ------------------------------------------------------------------ shapes for a source without

SHAPES = {
    "conv": (
        "[[{B}, %d, 56, 56], [%d, %d, 3, 3], [], [], [], [], [], [], []]",
        '["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", '
        '"ScalarList", "Scalar"]',
        '["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]',
    ),
    "batch_norm": (
        "[[{B}, %d, 28, 28], [%d], [%d], [], [], [], [], []]",
        '["float", "float", "float", "float", "float", "Scalar", "Scalar", "Scalar"]',
        '["", "", "", "", "", "True", "0.10000000000000001", "1.0000000000000001e-05"]',
    ),
    "mm": ("[[{B}, %d], [%d, %d], []]", '["float", "float", "Scalar"]', '["", "", "1"]'),
    "bin": (
        "[[{B}, %d, 14, 14], [{B}, %d, 14, 14], []]",
        '["float", "float", "Scalar"]',
        '["", "", "1"]',
    ),
    "alloc": (
        "[[], [], [], [], [], []]",
        '["ScalarList", "Scalar", "", "", "Scalar", ""]',
        '["[{B}, %d, 7, 7]", "6", "", "", "False", ""]',
    ),
    "un": ("[[{B}, %d, 7, 7]]", '["float"]', '[""]'),
}


def shape_kind(name):
    low = name.lower()
    for kind in ("conv", "batch_norm", "mm"):
        if kind in low:
            return kind
    if "linear" in low or "matmul" in low:
        return "mm"
    if "empty" in low or "resize" in low or "zeros" in low:
        return "alloc"
    return "bin" if any(k in low for k in ("add", "mul", "sub", "div", "copy")) else "un"


def shapes_for(name):
    dims, types, concrete = SHAPES[shape_kind(name)]
    channels = 16 << (hash32(name) % 8)

    def fill(text):
        return text % ((channels,) * text.count("%d")) if "%d" in text else text

    return fill(dims), types, fill(concrete)


# ------------------------------------------------------------------ the pattern that is repeated


@dataclass(slots=True)
class Ev:
    """One event of the pattern; the numbered fields become new ones in every repetition."""

    ph: str
    cat: str
    name: str
    pid: object
    tid: object
    ts: int
    dur: int | None = None
    args: list = field(default_factory=list)
    flow: int | None = None
    is_leaf: bool = False
    is_variant: bool = False
    ext: int | None = None
    corr: int | None = None
    evidx: object = None
    seq: int | None = None
    step: int | None = None
    pyid: int | None = None
    pypar: int | None = None
    shape: tuple | None = None

    @property
    def end(self):
        return self.ts + (self.dur or 0)


class Span:
    """Smallest id of a kind and how many numbers a repetition needs."""

    def __init__(self, ids):
        self.first = min(ids) if ids else 0
        self.count = max(ids) - self.first + 1 if ids else 1


def is_step(event):
    return (
        event.get("ph") == "X"
        and event.get("cat") == "user_annotation"
        and str(event.get("name", "")).startswith("ProfilerStep")
    )


def arg(event, key):
    return event.get("args", {}).get(key)


class Window:
    """The events of the whole steps of a source: what is repeated."""

    def __init__(self, events):
        steps = sorted((e for e in events if is_step(e)), key=lambda e: to_ns(e["ts"]))
        if len(steps) < 2:
            sys.exit(f"the source needs two or more ProfilerStep annotations (has {len(steps)})")
        self.begin, self.end = to_ns(steps[0]["ts"]), to_ns(steps[-1]["ts"])
        self.step_count = len(steps) - 1
        self.step_first = int(steps[0]["name"].split("#")[1])
        self.main_tid = steps[0]["tid"]
        self.host, self.device, self.flows = [], [], []
        self.correlations = set()
        for event in events:
            self.take_host(event)
        for event in events:
            self.take_device(event)
        self.meta = [e for e in events if e.get("ph") == "M"]
        self.drop_half_arrows()

    def holds(self, ts):
        return self.begin <= ts < self.end

    def take_host(self, event):
        cat = event.get("cat")
        if event.get("ph") not in ("X", "i") or cat not in HOST + CALLS:
            return
        ts = to_ns(event["ts"])
        end = ts + (to_ns(event["dur"]) if "dur" in event else 0)
        if not self.holds(ts) or (is_step(event) and end > self.end):
            return
        if cat in HOST:
            self.host.append(event)
            return
        self.device.append(event)
        if arg(event, "correlation") is not None:
            self.correlations.add(arg(event, "correlation"))

    def take_device(self, event):
        ph, cat = event.get("ph"), event.get("cat")
        if ph == "X" and cat in DEVICE:
            if arg(event, "correlation") in self.correlations:
                self.device.append(event)
        elif ph == "X" and cat == "gpu_user_annotation":
            if self.holds(to_ns(event["ts"])):
                self.device.append(event)
        elif ph in ("s", "f"):
            if cat == "ac2g" and event.get("id") in self.correlations:
                self.flows.append(event)
            elif cat == "fwdbwd" and self.holds(to_ns(event["ts"])):
                self.flows.append(event)

    def drop_half_arrows(self):
        ends = {}
        for event in self.flows:
            if event["cat"] == "fwdbwd":
                ends.setdefault(event["id"], set()).add(event["ph"])
        self.flows = [e for e in self.flows if e["cat"] != "fwdbwd" or len(ends[e["id"]]) == 2]


class Pattern:
    """Sections `first` (host) and `second` (calls, device), ready to be repeated."""

    def __init__(self, window, options):
        self.window, self.options = window, options
        rows = window.host + window.device
        self.corr = Span(window.correlations)
        self.ext = Span([arg(e, "External id") for e in rows if "External id" in e.get("args", {})])
        self.fwdbwd = Span([e["id"] for e in window.flows if e["cat"] == "fwdbwd"])
        numbers = [e["args"]["Sequence number"] for e in window.host if arg(e, "Sequence number")]
        numbers += [0 for e in window.host if arg(e, "Sequence number") == 0]
        self.seq = Span(numbers)
        self.python_count = 0
        self.first = [self.event(e) for e in window.host]
        source_rows = list(self.first)
        if not options.no_stack and not any(e.cat == "python_function" for e in self.first):
            Frames(self, source_rows).add()
        if not options.no_memory and not any(e.cat == "cpu_instant_event" for e in self.first):
            add_memory(self.first, source_rows)
        self.second = [self.event(e) for e in window.device]
        for event in window.flows:
            self.add_flow(event)
        self.first = arrows_behind_events(self.first)
        self.second = arrows_behind_events(self.second)
        self.period = self.find_period()
        self.number_events()

    def event(self, raw):
        args = dict(raw.get("args", {}))
        event = Ev(
            ph=raw["ph"],
            cat=raw.get("cat"),
            name=raw["name"],
            pid=raw["pid"],
            tid=raw["tid"],
            ts=to_ns(raw["ts"]) - self.window.begin,
            dur=to_ns(raw["dur"]) if "dur" in raw else None,
            is_leaf=raw.get("cat") in LEAVES,
            evidx="Ev Idx" in args,
        )
        if "External id" in args:
            event.ext = args["External id"] - self.ext.first + 1
        if "correlation" in args:
            event.corr = args["correlation"] - self.corr.first + 1
        if "Sequence number" in args:
            event.seq = args["Sequence number"] - self.seq.first
        if event.cat == "user_annotation" and event.name.startswith("ProfilerStep"):
            event.step = int(event.name.split("#")[1]) - self.window.step_first
        if event.cat == "cpu_op" and not self.options.no_shapes:
            event.shape = shape_of(event, args)
        name = event.name
        event.is_variant = event.cat == "kernel" and "<" in name and hash32(name) % 3 == 0
        event.args = [(k, arg_text(v)) for k, v in args.items() if k not in RENUMBERED]
        return event

    def add_flow(self, raw):
        is_launch = raw["cat"] == "ac2g"
        span = self.corr if is_launch else self.fwdbwd
        event = Ev(
            ph=raw["ph"],
            cat=raw["cat"],
            name=raw["name"],
            pid=raw["pid"],
            tid=raw["tid"],
            ts=to_ns(raw["ts"]) - self.window.begin,
            flow=raw["id"] - span.first + 1,
        )
        (self.second if is_launch else self.first).append(event)

    def find_period(self):
        """So long that no track overlaps itself."""
        tracks = {}
        for event in self.first + self.second:
            key = (event.pid, str(event.tid))
            low, high = tracks.get(key, (event.ts, event.ts))
            tracks[key] = (min(low, event.ts), max(high, event.end))
        longest = max([high - low for low, high in tracks.values()])
        return max(longest, self.window.end - self.window.begin) + 20000

    def number_events(self):
        self.evidx_count = 0
        for event in self.first + self.second:
            if event.evidx:
                event.evidx = self.evidx_count
                self.evidx_count += 1
            else:
                event.evidx = None


def shape_of(event, args):
    if "Input Dims" in args:
        keys = ("Input Dims", "Input type", "Concrete Inputs")
        return tuple(arg_text(args.get(key, [])) for key in keys)
    if event.name.startswith(("autograd::engine", "Optimizer", "## ")):
        return None
    return shapes_for(event.name)


def arrows_behind_events(section):
    """Flows follow the event that they hang on, as Kineto writes them."""
    where = {}
    for i, event in enumerate(section):
        if event.flow is None:
            where.setdefault((event.pid, str(event.tid), event.ts), i)
    order = []
    for i, event in enumerate(section):
        if event.flow is None:
            order.append((i, 0, i))
        else:
            order.append((where.get((event.pid, str(event.tid), event.ts), i), 1, i))
    return [section[i] for _, _, i in sorted(order)]


# ------------------------------------------------------------------ Python frames and memory

FRAMES = (
    "nn.Module: {M}_{I}",
    "torch/nn/modules/module.py({L}): _call_impl",
    "torch/nn/modules/{m}.py({L}): forward",
    "<built-in method {f} of type object at 0x7f{A}>",
)
PRELUDE = ("train.py(318): <module>", "train.py(281): main", "train.py(%d): train_one_epoch")
MODULES = {
    "conv2d": "Conv2d",
    "batch_norm": "BatchNorm2d",
    "relu_": "ReLU",
    "linear": "Linear",
    "max_pool2d": "MaxPool2d",
}
ALLOCATING = ("empty", "empty_strided", "empty_like", "resize_", "empty_cuda")


def frame_name(template, module, short, index):
    for key, text in (
        ("{M}", module or ""),
        ("{I}", str(index % 161)),
        ("{L}", str(100 + hash32(short) % 1500)),
        ("{m}", (module or "x").lower()),
        ("{f}", short),
        ("{A}", f"{hash32(short) * 16:010x}"),
    ):
        template = template.replace(key, text)
    return template


class Frames:
    """python_function frames around the top-level operators of the main thread."""

    def __init__(self, pattern, rows):
        self.pattern = pattern
        self.rows = rows
        self.next_id = 1

    def frame(self, name, begin, end, parent, like, module=None):
        number = self.next_id
        self.next_id += 1
        event = Ev(
            ph="X",
            cat="python_function",
            name=name,
            pid=like.pid,
            tid=like.tid,
            ts=begin,
            dur=end - begin,
            evidx=True,
            pyid=number,
            pypar=parent,
        )
        if module is not None:
            event.args = [("Python module id", str(module))]
        self.pattern.first.append(event)
        return number

    def top_operators(self):
        main = self.pattern.window.main_tid
        ops = [e for e in self.rows if e.cat == "cpu_op" and e.tid == main]
        top, end = [], -1
        for op in sorted(ops, key=lambda e: (e.ts, -e.dur)):
            if op.ts >= end:
                top.append(op)
                end = op.end
        return top

    def step_roots(self):
        """(begin, end, id of the innermost frame) of each step."""
        roots = []
        for step in sorted((e for e in self.rows if e.step is not None), key=lambda e: e.ts):
            begin, end = step.ts + 40, step.end - 40
            parent = None
            for k, text in enumerate(PRELUDE):
                name = text % 233 if "%d" in text else text
                parent = self.frame(name, begin + 60 * k, end - 60 * k, parent, step)
            roots.append((begin, end, parent))
        return roots

    def add(self):
        top, roots = self.top_operators(), self.step_roots()
        previous_end, root = 0, 0
        for i, op in enumerate(top):
            following = top[i + 1].ts if i + 1 < len(top) else op.end + 4000
            before = min(op.ts - previous_end, 1600)
            after = min(following - op.end, 1600)
            previous_end = op.end + after // 2
            while root + 1 < len(roots) and roots[root + 1][0] <= op.ts:
                root += 1
            if not roots or not (roots[root][0] + 400 < op.ts and op.end + 400 < roots[root][1]):
                previous_end = op.end
                continue
            if before > 20 and after > 20:
                self.wrap(op, i, roots[root][2], (before, after))
        self.pattern.python_count = self.next_id

    def wrap(self, op, index, parent, room):
        short = op.name.split("::")[-1]
        module = MODULES.get(short)
        for k in range(4):
            if module is None and k in (0, 2):
                continue
            plain = FRAMES[3] if k == 3 else "torch/_ops.py({L}): __call__"
            name = frame_name(FRAMES[k] if module else plain, module, short, index)
            begin = op.ts - (room[0] // 2) * (4 - k) // 4
            end = op.end + (room[1] // 2) * (4 - k) // 4
            number = index % 161 if k == 0 and module else None
            parent = self.frame(name, begin, end, parent, op, number)


def memory_event(op, delay, total, size, address):
    args = [
        ("Total Reserved", str(6 << 30)),
        ("Total Allocated", str(total)),
        ("Bytes", str(size)),
        ("Addr", str(address)),
        ("Device Id", "0"),
        ("Device Type", "1"),
    ]
    return Ev(
        ph="i",
        cat="cpu_instant_event",
        name="[memory]",
        pid=op.pid,
        tid=op.tid,
        ts=op.ts + op.dur // 2 + delay,
        evidx=True,
        args=args,
    )


def add_memory(section, rows):
    """[memory] instants: each allocating operator takes a block, and the 40th oldest goes."""
    rng = Rng(7)
    total, live = 2 << 30, []
    ops = [e for e in rows if e.cat == "cpu_op" and e.name.split("::")[-1] in ALLOCATING]
    for op in sorted(ops, key=lambda e: e.ts):
        size = 512 * (1 + hash32(f"{op.name}{op.ts}") % 20000)
        address = 139926520725504 + 512 * (rng.next() % (1 << 22))
        live.append((address, size))
        total += size
        section.append(memory_event(op, 0, total, size, address))
        if len(live) >= 40:
            address, size = live.pop(0)
            total -= size
            section.append(memory_event(op, 1, total, -size, address))


# ------------------------------------------------------------------ writing


def escape(text):
    """Keeps % from being a hole of the template."""
    return text.replace("%", "%%")


class Template:
    """The text of an event with %-holes, and the list of what fills them."""

    def __init__(self, event, style):
        self.event, self.style = event, style
        self.colon = ":" if style == "compact" else ": "
        self.arg_texts, self.arg_holes = [], []
        self.holes = []
        self.text = self.flow_text() if event.flow is not None else self.slice_text()

    def add(self, key, text, *holes):
        self.arg_texts.append(f'"{key}"{self.colon}{text}')
        self.arg_holes.extend(holes)

    def packed(self, text):
        return text.replace(", ", ",") if self.style == "compact" else text

    def add_args(self):
        event = self.event
        if event.ext is not None:
            self.add("External id", "%d", "ext")
        if event.seq is not None:
            self.add("Sequence number", "%d", "seq")
        if event.pyid is not None:
            if event.pypar is None:
                self.add("Python parent id", "null")
            else:
                self.add("Python parent id", "%d", "pypar")
            self.add("Python id", "%d", "pyid")
        for key, value in event.args:
            self.add(escape(key), escape(self.packed(value)))
        if event.corr is not None:
            self.add("correlation", "%d", "corr")
        if event.shape is not None:
            self.add_shape()
        if event.evidx is not None:
            self.add("Ev Idx", "%d", "evidx")

    def add_shape(self):
        dims, types, concrete = self.event.shape
        for key, value in (
            ("Concrete Inputs", concrete),
            ("Input type", types),
            ("Input Dims", dims),
        ):
            parts = self.packed(value).split("{B}")
            text = "%d".join(escape(p) for p in parts)
            self.add(key, text, *(["batch"] * (len(parts) - 1)))

    def name_text(self):
        event = self.event
        name = quote(event.name)
        if event.step is not None:
            self.holes = ["step"]
            return '"ProfilerStep#%d"'
        if event.is_variant:
            self.holes = ["variant"]
            at = name.index("<") + 1
            return escape(name[:at]) + "%d, " + escape(name[at:])
        return escape(name)

    def slice_text(self):
        event = self.event
        self.add_args()
        name = self.name_text()
        place = (quote(event.pid), quote(event.tid))
        parts = {
            "classic": self.classic_slice,
            "modern": self.modern_slice,
            "compact": self.compact_slice,
        }[self.style](name, place)
        has_dur = event.dur is not None
        self.holes += ["ts", "tsf"] + (["dur", "durf"] if has_dur else []) + self.arg_holes
        return parts

    def classic_slice(self, name, place):
        event = self.event
        # "s" follows "cat" in an instant event.
        scope = '"s": "t", ' if event.ph == "i" else ""
        glue = ",\n    " if event.ph == "i" else ", "
        text = f'  {{\n    "ph": "{event.ph}", "cat": "{event.cat}", {scope}"name": {name}{glue}'
        text += '"pid": {}, "tid": {},\n    "ts": %d.%03d'.format(*place)
        text += ', "dur": %d.%03d' if event.dur is not None else ""
        if self.arg_texts:
            text += ',\n    "args": {\n      ' + ", ".join(self.arg_texts) + "\n    }"
        return text + "\n  },\n"

    def modern_slice(self, name, place):
        event = self.event
        scope = '    "s": "t",\n' if event.ph == "i" else ""
        text = (
            f'  {{\n    "ph": "{event.ph}",\n    "cat": "{event.cat}",\n{scope}    "name": {name}'
        )
        text += ',\n    "pid": {},\n    "tid": {},\n    "ts": %d.%03d'.format(*place)
        text += ',\n    "dur": %d.%03d\n    ' if event.dur is not None else ""
        if self.arg_texts:
            text += ',\n    "args": {\n      ' + ",".join(self.arg_texts) + "\n    }"
        return text + "\n  },\n"

    def compact_slice(self, name, place):
        event = self.event
        scope = '"s":"t",' if event.ph == "i" else ""
        text = f'{{"ph":"{event.ph}","cat":"{event.cat}",{scope}"name":{name}'
        text += ',"pid":{},"tid":{},"ts":%d.%03d'.format(*place)
        text += ',"dur":%d.%03d' if event.dur is not None else ""
        if self.arg_texts:
            text += ',"args":{' + ",".join(self.arg_texts) + "}"
        return text + "},"

    def flow_text(self):
        self.holes = ["flow", "ts", "tsf"]
        event = self.event
        bind = f'"bp"{self.colon}"e"' if event.ph == "f" else ""
        keys = {
            "ph": f'"{event.ph}"',
            "id": "%d",
            "pid": quote(event.pid),
            "tid": quote(event.tid),
            "ts": "%d.%03d",
            "cat": f'"{event.cat}"',
            "name": f'"{event.name}"',
        }
        pairs = [f'"{k}"{self.colon}{v}' for k, v in keys.items()]
        if self.style == "compact":
            return "{" + ",".join(pairs + ([bind] if bind else [])) + "},"
        if self.style == "classic":
            pairs += [bind] if bind else []
            return (
                "  {\n    " + ", ".join(pairs[:5]) + ",\n    " + ", ".join(pairs[5:]) + "\n  },\n"
            )
        return (
            "  {\n    "
            + ",\n    ".join(pairs)
            + "\n    "
            + (f", {bind}" if bind else "")
            + "\n  },\n"
        )


BATCHES = (16, 32, 48, 64, 96, 128, 192, 256)


class Writer:
    """Renders repetitions of a pattern in one style."""

    def __init__(self, pattern, style, seed):
        self.pattern, self.seed = pattern, seed
        self.sections = [
            [(e, Template(e, style)) for e in section]
            for section in (pattern.first, pattern.second)
        ]

    def numbers(self, repetition):
        """What is added to each kind of id in this repetition."""
        pattern, window = self.pattern, self.pattern.window
        return {
            "ts": FIRST_NS + repetition * pattern.period,
            "step": window.step_first + repetition * window.step_count,
            "corr": repetition * pattern.corr.count,
            "ext": repetition * pattern.ext.count,
            "fwdbwd": repetition * pattern.fwdbwd.count,
            "seq": repetition * pattern.seq.count,
            "evidx": repetition * pattern.evidx_count,
            "python": repetition * pattern.python_count,
            "batch": BATCHES[(repetition * 5 + self.seed) % len(BATCHES)],
            "variant": 1 << ((repetition * 3 + self.seed) % 6),
        }

    def render(self, section, repetition):
        add = self.numbers(repetition)
        x = (self.seed * 2654435761 + repetition * 40503 + 12345) & 0xFFFFFFFF
        out = []
        for event, template in self.sections[section]:
            dur = event.dur
            if event.is_leaf:
                x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
                dur -= (dur * (x >> 20)) >> 14  # 75 % to 100 %
            values = fill_of(event, add, dur)
            out.append(template.text % tuple(values[h] for h in template.holes))
        return "".join(out)


def fill_of(event, add, dur):
    """What each hole of the event's template gets."""
    ts = event.ts + add["ts"]
    fill = {"ts": ts // 1000, "tsf": ts % 1000, "batch": add["batch"], "variant": add["variant"]}
    if dur is not None:
        fill["dur"], fill["durf"] = dur // 1000, dur % 1000
    if event.flow is not None:
        fill["flow"] = event.flow + add["corr" if event.cat == "ac2g" else "fwdbwd"]
    if event.pyid is not None:
        fill["pyid"] = event.pyid + add["python"]
    if event.pypar is not None:
        fill["pypar"] = event.pypar + add["python"]
    for key in ("ext", "evidx", "corr", "seq", "step"):
        value = getattr(event, key)
        if value is not None:
            fill[key] = value + add[key]
    return fill


class Out:
    """The file, its gzip twin, or both."""

    def __init__(self, path, options):
        self.size = 0
        self.plain = None if options.gz_only else open(path, "wb", 1 << 20)
        self.packed = None
        if options.gz or options.gz_only:
            self.packed = open(path + ".gz", "wb", 1 << 20)
            # No name and no time in the header: same input, same bytes.
            self.packed.write(b"\x1f\x8b\x08\0\0\0\0\0\0\xff")
            self.deflate = zlib.compressobj(options.gz_level, zlib.DEFLATED, -15)
            self.crc = 0

    def write(self, text):
        data = text.encode("utf-8")
        self.size += len(data)
        if self.plain:
            self.plain.write(data)
        if self.packed:
            self.crc = zlib.crc32(data, self.crc)
            self.packed.write(self.deflate.compress(data))

    def close(self):
        if self.plain:
            self.plain.close()
        if self.packed:
            self.packed.write(self.deflate.flush())
            self.packed.write((self.crc & 0xFFFFFFFF).to_bytes(4, "little"))
            self.packed.write((self.size & 0xFFFFFFFF).to_bytes(4, "little"))
            self.packed.close()


def distributed_text(options):
    ranks = ", ".join(map(str, range(options.world_size)))
    return (
        f'{{"backend": "nccl", "rank": {options.rank}, "world_size": {options.world_size}, '
        '"pg_count": 1, "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", '
        f'"backend_config": "cuda:nccl", "pg_size": {options.world_size}, "ranks": [{ranks}]}}], '
        '"nccl_version": "2.21.5"}'
    )


def around_events(trace, options, newline):
    """The pairs before and after traceEvents."""
    gpus = trace.get("deviceProperties", []) if isinstance(trace, dict) else []
    gpu_texts = ("," + newline).join("    " * bool(newline) + arg_text(gpu) for gpu in gpus)
    head = [
        ("schemaVersion", "1"),
        ("deviceProperties", "[" + newline + gpu_texts + newline + "  ]"),
        ("cupti_version", "24"),
        ("cuda_runtime_version", "12060"),
        ("cuda_driver_version", "12080"),
        ("profile_memory", "1"),
        ("with_stack", "1"),
        ("record_shapes", "1"),
        ("distributedInfo", distributed_text(options)),
    ]
    tail = [
        ("traceName", f'"./log/rank{options.rank}.pt.trace.json"'),
        ("displayTimeUnit", '"ms"'),
        ("baseTimeNanoseconds", str(BASE_NS)),
    ]
    if options.style == "modern":
        return head + tail[1:], tail[:1]
    return head, tail


def metadata_text(event, newline):
    pid, tid, args = quote(event["pid"]), quote(event["tid"]), arg_text(event.get("args", {}))
    ts = f"{FIRST_NS // 1000}.{FIRST_NS % 1000:03d}"
    if newline:
        return (
            f'  {{\n    "name": "{event["name"]}", "ph": "M", "ts": {ts}, '
            f'"pid": {pid}, "tid": {tid},\n    "args": {{\n      {args[1:-1]}\n    }}\n  }},\n'
        )
    return f'{{"name":"{event["name"]}","ph":"M","ts":{ts},"pid":{pid},"tid":{tid},"args":{args}}},'


def spans_text(total):
    def us(ns):
        return f"{ns // 1000}.{ns % 1000:03d}"

    return (
        f'  {{\n    "ph": "X", "cat": "Trace", "ts": {us(FIRST_NS)}, "dur": {us(total)}, '
        '"pid": "Spans", "tid": "PyTorch Profiler",\n    "name": "PyTorch Profiler (0)",\n'
        '    "args": {\n      "Op count": 0\n    }\n  },\n'
        '  {\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
        f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {us(FIRST_NS)}\n  }},\n'
        '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n'
        f'    "pid": "", "tid": "", "ts": {us(FIRST_NS + total)}\n  }}\n  ],\n'
    )


def write_trace(trace, options):
    pattern = Pattern(Window(trace["traceEvents"] if isinstance(trace, dict) else trace), options)
    writer = Writer(pattern, options.style, options.seed + options.rank * 17)
    per = sum(len(writer.render(section, 0).encode()) for section in (0, 1))
    reps = options.reps or max(1, -(-int(options.size_mb * 1e6) // per))
    newline = "" if options.style == "compact" else "\n"
    head, tail = around_events(trace, options, newline)
    out = Out(options.out, options)
    pairs = "".join(f'  "{key}": {value},{newline}' for key, value in head)
    out.write("{" + newline + pairs + '  "traceEvents": [' + newline)
    for section in (0, 1):
        for repetition in range(reps):
            out.write(writer.render(section, repetition))
    for event in pattern.window.meta:
        out.write(metadata_text(event, newline))
    out.write(spans_text(reps * pattern.period))
    pairs = f",{newline}".join(f'  "{key}": {value}' for key, value in tail)
    out.write(pairs + newline + "}" + newline)
    out.close()
    events = reps * (len(pattern.first) + len(pattern.second)) + len(pattern.window.meta) + 3
    return {
        "out": options.out,
        "bytes": out.size,
        "events": events,
        "reps": reps,
        "steps": reps * pattern.window.step_count,
        "bytes_per_event": round(out.size / events, 1),
        "gz_bytes": os.path.getsize(options.out + ".gz") if out.packed else None,
    }


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(description="Grow a real trace into a large one.")
    parser.add_argument("--source", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--size-mb", type=float, default=100, help="10^6 bytes of JSON, at least")
    parser.add_argument("--reps", type=int, help="repeat so often instead")
    parser.add_argument("--gz", action="store_true", help="write OUT.gz too")
    parser.add_argument("--gz-only", action="store_true")
    parser.add_argument("--gz-level", type=int, default=6)
    parser.add_argument("--style", choices=("classic", "modern", "compact"), default="classic")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world-size", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-stack", action="store_true")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--no-shapes", action="store_true")
    return parser.parse_args(arguments)


def main():
    options = parse_options()
    print(json.dumps(write_trace(load(options.source), options)))


if __name__ == "__main__":
    main()
