#!/usr/bin/env python3
"""Makes memory snapshots as torch.cuda.memory._snapshot() gives them, from a small model of the
caching allocator: blocks are split and merged, segments come and go, the trace is a ring, streams
hold freed blocks, memory runs out. What it says is consistent, so every number has one answer.

Use: tools/gen_snapshot.py OUT.pickle [--events N] [--seed S] [--protocol P] [--ring N] [--depth N]
"""

import argparse
import gzip
import pickle
import random
import struct

MIB = 1 << 20
STATES = {"free": "inactive", "used": "active_allocated", "pending": "active_pending_free"}


def make_frames(generator, count):
    """Frames of a program: some of torch's Python, some of C++, some the user's."""
    frames = []
    for i in range(count):
        kind = generator.choice(["user", "torch", "native"])
        if kind == "user":
            file = f"/srv/train/model{i % 7}.py"
            frame = {"filename": file, "line": 10 + i, "name": f"f{i}"}
        elif kind == "torch":
            folder = "/usr/lib/python3.11/site-packages/torch/nn/modules"
            frame = {"filename": f"{folder}/m{i % 5}.py", "line": 100 + i, "name": "forward"}
        else:
            frame = {"filename": "??", "line": 0, "name": f"at::native::op{i}(at::Tensor const&)"}
        frames.append(frame)
    return frames


class Allocator:
    """One device. `budget`: bytes that segments may take together."""

    def __init__(self, generator, device, budget, stacks):
        self.generator = generator
        self.device = device
        self.budget = budget
        self.stacks = stacks
        self.segments = []
        self.trace = []
        self.time_us = 1_700_000_000_000_000
        self.next_address = 0x7F00_0000_0000 + (device << 40)
        self.at_oom = []  # (reserved, free) each time that memory ran out

    def record(self, action, address, size, frames):
        self.time_us += self.generator.randrange(1, 20)
        event = {"action": action, "size": size, "stream": 0, "time_us": self.time_us}
        event["device_free" if action == "oom" else "addr"] = address
        self.trace.append(event | {"frames": list(frames)})

    def reserved(self):
        return sum(segment["total_size"] for segment in self.segments)

    def new_segment(self, size, frames):
        is_small = size <= MIB
        total = -(-size // (2 * MIB)) * 2 * MIB
        if size < 10 * MIB:
            total = 2 * MIB if is_small else 20 * MIB
        if self.reserved() + total > self.budget:
            self.release_free(frames)
        if self.reserved() + total > self.budget:
            self.record("oom", self.budget - self.reserved(), size, frames)
            free = sum(block["size"] for _, block in self.blocks("free"))
            self.at_oom.append((self.reserved(), free))
            return None
        block = {"address": self.next_address, "size": total, "requested_size": 0, "state": "free"}
        block["frames"] = []
        segment = {"device": self.device, "address": self.next_address, "total_size": total}
        segment |= {"stream": self.generator.choice([0, 0, 0, 7]), "segment_pool_id": (0, 0)}
        segment |= {"segment_type": "small" if is_small else "large", "is_expandable": False}
        segment |= {"frames": [], "blocks": [block]}
        self.next_address += total + self.generator.choice([0, 2 * MIB])
        self.segments.append(segment)
        self.record("segment_alloc", segment["address"], total, frames)
        return segment

    def release_free(self, frames):
        for segment in list(self.segments):
            if all(block["state"] == "free" for block in segment["blocks"]):
                self.segments.remove(segment)
                self.record("segment_free", segment["address"], segment["total_size"], frames)

    def find(self, size, kind):
        for segment in self.segments:
            if segment["segment_type"] == kind:
                for block in segment["blocks"]:
                    if block["state"] == "free" and block["size"] >= size:
                        return segment, block
        return None, None

    def alloc(self, requested):
        frames = self.generator.choice(self.stacks)
        size = -(-requested // 512) * 512
        segment, block = self.find(size, "small" if size <= MIB else "large")
        if not block:
            segment = self.new_segment(size, frames)
            if not segment:
                return
            block = segment["blocks"][0]
        rest = block["size"] - size
        if rest >= (512 if segment["segment_type"] == "small" else MIB):
            at = segment["blocks"].index(block)
            left = {"address": block["address"] + size, "size": rest, "requested_size": 0}
            segment["blocks"].insert(at + 1, left | {"state": "free", "frames": []})
            block["size"] = size
        block |= {"state": "used", "requested_size": requested, "frames": list(frames)}
        self.record("alloc", block["address"], requested, frames)

    def blocks(self, state):
        return [(s, b) for s in self.segments for b in s["blocks"] if b["state"] == state]

    def request_free(self):
        used = self.blocks("used")
        if used:
            segment, block = self.generator.choice(used)
            frames = self.generator.choice(self.stacks)
            self.record("free_requested", block["address"], block["requested_size"], frames)
            block["state"] = "pending"
            if self.generator.random() < 0.8:
                self.complete_free(segment, block, frames)

    def complete_free(self, segment, block, frames):
        self.record("free_completed", block["address"], block["requested_size"], frames)
        block |= {"state": "free", "frames": []}
        blocks = segment["blocks"]
        at = blocks.index(block)
        for left, right in ((at, at + 1), (at - 1, at)):
            is_pair = left >= 0 and right < len(blocks)
            if is_pair and blocks[left]["state"] == blocks[right]["state"] == "free":
                blocks[left]["size"] += blocks[right]["size"]
                del blocks[right]

    def step(self):
        kind = self.generator.random()
        if kind < 0.52:
            exponent = self.generator.uniform(4, 26)
            self.alloc(int(2**exponent))
        elif kind < 0.95:
            self.request_free()
        elif kind < 0.98 and self.blocks("pending"):
            self.complete_free(*self.blocks("pending")[0], self.generator.choice(self.stacks))
        elif kind > 0.998:
            self.release_free(self.generator.choice(self.stacks))


def finish_segment(segment):
    blocks = [block | {"state": STATES[block["state"]]} for block in segment["blocks"]]
    active = [block for block in blocks if block["state"] != "inactive"]
    segment |= {"blocks": blocks, "active_size": sum(block["size"] for block in active)}
    segment["requested_size"] = sum(block["requested_size"] for block in active)
    segment["allocated_size"] = sum(b["size"] for b in active if b["state"] == "active_allocated")
    return segment


def make(seed=0, events=2000, ring=None, devices=1, depth=12, budget=1 << 30, until_oom=False):
    """A snapshot with at most `ring` events of each device."""
    return make_both(seed, events, ring, devices, depth, budget, until_oom)[0]


def make_both(seed, events, ring, devices, depth, budget, until_oom):
    """The snapshot, and the allocators that made it."""
    generator = random.Random(seed)
    frames = make_frames(generator, 60)
    stacks = [generator.choices(frames, k=generator.randrange(1, depth)) for _ in range(40)] + [[]]
    allocators = [Allocator(generator, device, budget, stacks) for device in range(devices)]
    while sum(len(allocator.trace) for allocator in allocators) < events:
        generator.choice(allocators).step()
        if until_oom and any(allocator.at_oom for allocator in allocators):
            break
    traces = [a.trace[-ring:] if ring else a.trace for a in allocators]
    marks = []
    for allocator, trace in zip(allocators, traces, strict=True):
        for event in trace[:: max(1, len(trace) // 5)]:
            mark = {"name": "Optimizer.step#SGD.step", "device": allocator.device}
            marks.append(mark | {"stage": "END", "time_us": event["time_us"]})
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False}
    snapshot = {
        "segments": [finish_segment(s) for a in allocators for s in a.segments],
        "device_traces": traces,
        "allocator_settings": settings | {"garbage_collection_threshold": 0.0},
        "external_annotations": marks,
    }
    return snapshot, allocators


def repeat(snapshot, copies):
    """A larger snapshot: the same one at other addresses and later times, again and again. Frames
    are the same objects, as torch has them; segments stay those of all copies."""
    out = {**snapshot, "segments": [], "device_traces": [[] for _ in snapshot["device_traces"]]}
    for copy in range(copies):
        moved = copy << 44
        for segment in snapshot["segments"]:
            blocks = [b | {"address": b["address"] + moved} for b in segment["blocks"]]
            new = segment | {"address": segment["address"] + moved, "blocks": blocks}
            out["segments"].append(new)
        for trace, target in zip(snapshot["device_traces"], out["device_traces"], strict=True):
            for event in trace:
                new = event | {"time_us": event["time_us"] + copy * 10_000_000}
                if "addr" in event:
                    new["addr"] = event["addr"] + moved
                target.append(new | {"frames": list(event["frames"])})
    return out


class LibtorchPickler:
    """Writes as torch's C++ pickler does: protocol 2, lists and dicts in one batch, each put into
    the memo behind its items, integers of eight bytes."""

    def __init__(self):
        self.out = bytearray(b"\x80\x02")
        self.memo = {}
        self.kept = []

    def put(self, key, value):
        place = len(self.memo)
        self.memo[key] = place
        self.kept.append(value)
        self.out += b"q" + bytes([place]) if place < 256 else b"r" + struct.pack("<I", place)

    def get(self, key):
        if key not in self.memo:
            return False
        place = self.memo[key]
        self.out += b"h" + bytes([place]) if place < 256 else b"j" + struct.pack("<I", place)
        return True

    def write_int(self, value):
        if 0 <= value < 256:
            self.out += b"K" + bytes([value])
        elif 0 <= value < 65536:
            self.out += b"M" + struct.pack("<H", value)
        elif -(2**31) <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", value)

    def write(self, value):
        if value is None or isinstance(value, bool):
            self.out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, int):
            self.write_int(value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            if not self.get(value):
                text = value.encode()
                self.out += b"X" + struct.pack("<I", len(text)) + text
                self.put(value, value)
        elif not self.get(id(value)):
            self.write_items(value)
            self.put(id(value), value)

    def write_items(self, value):
        is_dict = isinstance(value, dict)
        self.out += {dict: b"}(", list: b"](", tuple: b"("}[type(value)]
        for item in value.items() if is_dict else value:
            for part in item if is_dict else (item,):
                self.write(part)
        self.out += {dict: b"u", list: b"e", tuple: b"t"}[type(value)]


def dump(snapshot, protocol):
    """`protocol` 2 to 5, or "libtorch"."""
    if protocol == "libtorch":
        pickler = LibtorchPickler()
        pickler.write(snapshot)
        return bytes(pickler.out) + b"."
    return pickle.dumps(snapshot, protocol=protocol)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out")
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--protocol", default="5", choices=["2", "3", "4", "5", "libtorch"])
    parser.add_argument("--ring", type=int)
    parser.add_argument("--depth", type=int, default=12, help="frames of a stack at most")
    parser.add_argument("--copies", type=int, default=1, help="make it that much larger")
    options = parser.parse_args()
    snapshot = make(options.seed, options.events, options.ring, depth=options.depth)
    if options.copies > 1:
        snapshot = repeat(snapshot, options.copies)
    protocol = options.protocol if options.protocol == "libtorch" else int(options.protocol)
    data = dump(snapshot, protocol)
    opener = gzip.open if options.out.endswith(".gz") else open
    with opener(options.out, "wb") as file:
        file.write(data)
    print(f"{options.out}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
