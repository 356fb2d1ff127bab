"""What a memory snapshot says, once more: in slow and obvious Python, and another way where there
is one. The program builds lives of allocations forwards; here the state is taken back event by
event from the end, and all of it is looked at each time."""

import collections

ACTIVE = ("active_allocated", "active_pending_free")


def totals(segments):
    """Sums over the blocks of some segments."""
    blocks = [block for segment in segments for block in segment["blocks"]]
    allocated = [block for block in blocks if block["state"] == "active_allocated"]
    active = [block for block in blocks if block["state"] in ACTIVE]
    free = [block["size"] for block in blocks if block["state"] not in ACTIVE]
    reserved = sum(segment["total_size"] for segment in segments)
    split = 0
    wholly_free = 0
    for segment in segments:
        states = [block["state"] in ACTIVE for block in segment["blocks"]]
        wholly_free += not any(states)
        if any(states):
            split += sum(b["size"] for b in segment["blocks"] if b["state"] not in ACTIVE)
    return {
        "reserved_bytes": reserved,
        "allocated_bytes": sum(block["size"] for block in allocated),
        "active_bytes": sum(block["size"] for block in active),
        "pending_free_bytes": sum(b["size"] for b in active if b["state"] == ACTIVE[1]),
        "requested_bytes": sum(block["requested_size"] for block in active),
        "rounding_bytes": sum(block["size"] - block["requested_size"] for block in allocated),
        "fragmentation_bytes": reserved - sum(block["size"] for block in allocated),
        "free_bytes": sum(free),
        "free_pieces": len(free),
        "free_largest_bytes": max(free, default=0),
        "inactive_split_bytes": split,
        "blocks": len(allocated),
        "segments": len(segments),
        "segments_free": wholly_free,
    }


def devices(snapshot):
    ids = {segment["device"] for segment in snapshot["segments"]}
    ids |= {i for i, trace in enumerate(snapshot["device_traces"]) if trace}
    return sorted(ids)


def by_device(snapshot):
    return [
        {"device": d, **totals([s for s in snapshot["segments"] if s["device"] == d])}
        for d in devices(snapshot)
    ]


def by_pool(snapshot):
    pools = collections.defaultdict(list)
    for segment in snapshot["segments"]:
        key = (segment["device"], tuple(segment["segment_pool_id"]), segment["stream"])
        pools[(*key, segment["segment_type"] == "small")].append(segment)
    rows = []
    for (device, pool, stream, is_small), segments in sorted(pools.items()):
        kind = "small" if is_small else "large"
        head = {"device": device, "pool": list(pool), "stream": stream, "kind": kind}
        rows.append({**head, **totals(segments)})
    return rows


def text_of(frames):
    return tuple(f"{f['filename']}:{f['line']} {f['name']}" for f in frames)


def holders(snapshot):
    """{(device, stack): [bytes, requested, count]} of what the program holds."""
    sums = collections.defaultdict(lambda: [0, 0, 0])
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                row = sums[(segment["device"], text_of(block["frames"]))]
                row[0] += block["size"]
                row[1] += block["requested_size"]
                row[2] += 1
    return dict(sums)


class Timeline:
    """States of one device, from the last one backwards: `live` is {address: (size, is_pending)}
    at each moment, moment 0 before the first event."""

    def __init__(self, snapshot, device):
        self.trace = snapshot["device_traces"][device]
        self.live = {}
        self.reserved = 0
        for segment in snapshot["segments"]:
            if segment["device"] == device:
                self.reserved += segment["total_size"]
                self.add_blocks(segment["blocks"])
        self.states = [(dict(self.live), self.reserved)]
        for event in reversed(self.trace):
            self.take_back(event)
            self.states.append((dict(self.live), self.reserved))
        self.states.reverse()

    def add_blocks(self, blocks):
        for block in blocks:
            if block["state"] in ACTIVE:
                is_pending = block["state"] == ACTIVE[1]
                self.live[block["address"]] = (block["requested_size"], is_pending)

    def take_back(self, event):
        action, address, size = event["action"], event.get("addr"), event["size"]
        if action == "alloc":
            del self.live[address]
        elif action == "free_completed":
            assert address not in self.live
            self.live[address] = (size, True)
        elif action == "free_requested":
            assert self.live[address] == (size, True)
            self.live[address] = (size, False)
        elif action in ("segment_alloc", "segment_map"):
            self.reserved -= size
        elif action in ("segment_free", "segment_unmap"):
            self.reserved += size

    def active(self, moment):
        return sum(size for size, _ in self.states[moment][0].values())

    def allocated(self, moment):
        return sum(size for size, pending in self.states[moment][0].values() if not pending)

    def levels(self):
        moments = range(len(self.states))
        rows = {
            "active_bytes": [self.active(m) for m in moments],
            "allocated_bytes": [self.allocated(m) for m in moments],
            "reserved_bytes": [state[1] for state in self.states],
        }
        return {k: {"start": v[0], "end": v[-1], "peak": max(v)} for k, v in rows.items()}, rows

    def allocs_before(self, moment):
        """{address: stack} of the last allocation at each address before the moment."""
        events = self.trace[:moment]
        return {e["addr"]: text_of(e["frames"]) for e in events if e["action"] == "alloc"}

    def holders_at(self, moment, blocks):
        """{stack: [bytes, count]}; what was there before the trace has the stack of its block."""
        sums = collections.defaultdict(lambda: [0, 0])
        stacks = self.allocs_before(moment)
        frees = {e["addr"] for e in self.trace[moment:] if e["action"] == "free_completed"}
        for address, (size, _) in self.states[moment][0].items():
            stack = stacks.get(address)
            if stack is None or address not in stacks:
                stack = () if address in frees else blocks.get(address, ())
            sums[stack][0] += size
            sums[stack][1] += 1
        return dict(sums)
