"""Small recordings with one thing each: inputs of golden cases and seeds of the fuzzer.

Use: tests/capture/sample_recordings.py            writes golden inputs and fuzz/corpus/recording
"""

import gzip
import pathlib

from write_recording import EVENTS, OFF, RUNNING, START_UNIX_NS, Recording

ROOT = pathlib.Path(__file__).resolve().parents[2]
US = 1000


def training():
    """Two steps with nested regions, values, a mark and a counter; two tasks; a monitor."""
    r = Recording(pid=41, rank=0, world_size=1)
    main = r.thread(41, "MainThread")
    for step in range(2):
        t = step * 1000 * US
        main.begin(t, "step", "training_loop").value("batch", 32).value("phase", "warm-up")
        main.begin(t + 50 * US, "load", "data_loading").end(t + 200 * US, "load", "data_loading")
        main.begin(t + 200 * US, "forward", "forward_pass")
        main.begin(t + 250 * US, "loss", "loss_computation").value("loss", 0.5 / (step + 1))
        main.end(t + 300 * US, "loss", "loss_computation")
        main.end(t + 400 * US, "forward", "forward_pass")
        main.mark(t + 450 * US, "checkpoint", "io", path="last.pt", step=step)
        main.counter(t + 460 * US, "lr", 0.001).counter(t + 470 * US, "tokens", 512, "input")
        main.end(t + 900 * US, "step", "training_loop")
    r.unit("tokens", "input", "token")
    loop = r.thread(42, "loop")
    loop.task(1).begin(100 * US, "request", "model_inference")
    loop.task(2).begin(150 * US, "request", "model_inference")
    loop.task(1).end(400 * US, "request", "model_inference")
    loop.task(2).end(700 * US, "request", "model_inference")
    r.metric(1, "cpu.process", "percent")
    r.metric(2, "cpu.core", "percent", 0)
    for i in range(3):
        r.metrics(i * 500 * US, [(1, 90.0 + i), (2, 50.0)])
    r.clock(2000 * US, 2000 * US, START_UNIX_NS + 2000 * US)
    return r


def killed():
    """The process ended in its second step, within an event: what was published is there."""
    r = Recording(pid=41, rank=0, state=RUNNING)
    main = r.thread(41, "MainThread")
    main.begin(0, "step", "training_loop").end(900 * US, "step", "training_loop")
    main.begin(1000 * US, "step", "training_loop").begin(1100 * US, "forward", "forward_pass")
    main.mark(1300 * US, "last sign")
    main.slot.is_sealed = False
    main.slot.payload += (1400 * US).to_bytes(8, "little")
    r.items.slot.is_sealed = False
    return r


def off():
    r = Recording(pid=41, state=OFF, off_reason="the disk is full", events_lost=12)
    r.thread(41).begin(0, "a", "b").end(5 * US, "a", "b")
    return r


def many_slots():
    """Lanes of several slots that took turns; one slot is missing."""
    r = Recording(pid=41)
    lanes = [r.thread(41 + i, f"thread {i}") for i in range(2)]
    for i in range(1100):
        lanes[i % 2].begin(i * US, "outer", "x").end(i * US + 500, "outer", "x")
    r.slots = [slot for slot in r.slots if not (slot.kind == EVENTS and slot.sequence == 1)]
    for index, slot in enumerate(r.slots):
        slot.index = index
    return r


def sampled():
    r = Recording(pid=41)
    outer = ("main", "train.py", 1, 10)
    for i in range(6):
        leaf = ("forward", "model.py", 20, 25 + i % 2)
        stack = r.stack(outer, leaf) if i % 3 else r.stack(outer)
        r.sample(i * 1000 * US, 41 + i % 2, stack, 1 + i)
    nodes = r.thread(41)
    nodes.kind = 3
    top = r.node(nodes, r.code("main", "train.py", 1), calls=1, total=900, child=600)
    r.node(nodes, r.code("forward", "model.py", 20), top, calls=4, total=600)
    r.clock(10_000 * US, 10_000 * US, START_UNIX_NS + 10_000 * US)
    return r


SAMPLES = (training, killed, off, many_slots, sampled)
GOLDEN = {"recording": training, "recording_killed": killed, "recording_functions": sampled}


def main():
    corpus = ROOT / "fuzz" / "corpus" / "recording"
    corpus.mkdir(parents=True, exist_ok=True)
    for sample in SAMPLES:
        r = sample()
        (corpus / sample.__name__).write_bytes(r.packed(sizes=len(r.slots) * 4))
    for name, sample in GOLDEN.items():
        folder = ROOT / "tests" / "golden" / "capture" / name
        folder.mkdir(parents=True, exist_ok=True)
        # Mostly zeros, which no review needs to see.
        data = gzip.compress(sample().bytes(), mtime=0)
        (folder / "input.ksrec.gz").write_bytes(data)


if __name__ == "__main__":
    main()
