"""One recording window: drives torch.profiler for a few steps and writes its trace.

Used as: open, then one `advance` per step until it says that the window is complete, then `close`.
`close` may come early; then the trace holds the steps so far and says so. The caller catches what
torch raises. Shapes and memory are recorded, Python stacks are not: they cost most of all.
"""

import json
import os


class WindowSpec:
    """`wait` steps run free, `warmup` steps are recorded and thrown away, `active` are kept."""

    def __init__(self, wait, warmup, active):
        self.wait = wait
        self.warmup = warmup
        self.active = active

    @classmethod
    def parse(cls, text):
        if text == "auto":
            text = "5:1:6"
        wait, warmup, active = (int(part) for part in text.split(":")[:3])
        # A window can only open where a step ends.
        return cls(max(wait, 1), max(warmup, 0), max(active, 1))

    @property
    def step_count(self):
        return self.wait + self.warmup + self.active

    def as_members(self):
        return {"wait": self.wait, "warmup": self.warmup, "active": self.active}


class Window:
    def __init__(self, torch, spec, first_step):
        """`first_step` is the number of the step that begins now: N of ProfilerStep#N."""
        self._spec = spec
        self._first_step = first_step
        self._done_count = 0
        action = torch.profiler.ProfilerAction
        steps_total = spec.warmup + spec.active

        def schedule(step):
            index = step - first_step if step >= first_step else 0
            if index >= steps_total:
                return action.NONE
            if index < spec.warmup:
                return action.WARMUP
            return action.RECORD_AND_SAVE if index == steps_total - 1 else action.RECORD

        self._profiler = torch.profiler.profile(
            activities=_activities(torch),
            schedule=schedule,
            record_shapes=True,
            profile_memory=True,
            **_trace_only(torch),
        )
        self._profiler.step_num = first_step

    def open(self):
        self._profiler.start()

    def advance(self, metadata):
        """Ends a step; true when it was the last. `metadata` goes into the trace then."""
        is_last = self._done_count + 1 == self._spec.warmup + self._spec.active
        if is_last:
            self._profiler.add_metadata_json("kinetoscope", json.dumps(metadata))
        self._done_count += 1
        self._profiler.step()
        return is_last

    @property
    def recorded_count(self):
        """Kept steps that are complete."""
        return max(self._done_count - self._spec.warmup, 0)

    @property
    def open_step(self):
        """Number of the step that is running."""
        return self._first_step + self._done_count

    def close(self, metadata=None):
        """Stops the profiler. With `metadata` the window was cut, and the trace says so."""
        if metadata is not None and self.recorded_count > 0:
            self._profiler.add_metadata_json("kinetoscope", json.dumps(metadata))
        self._profiler.stop()

    def save(self, path):
        """Writes the trace, compressed, under a temporary name first."""
        plain = f"{path}.plain.tmp"
        packed = f"{path}.tmp"
        try:
            self._profiler.export_chrome_trace(plain)
            _compress(plain, packed)
            os.replace(packed, path)
        finally:
            for leftover in (plain, packed):
                if os.path.exists(leftover):
                    os.unlink(leftover)
            self._profiler = None  # frees the events


def _compress(source, target):
    # Level 1: the program waits for this, and a trace shrinks tenfold all the same.
    import shutil
    import zlib

    with open(source, "rb") as reader, open(target, "wb") as writer:
        packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        for chunk in iter(lambda: reader.read(1 << 20), b""):
            writer.write(packer.compress(chunk))
        writer.write(packer.flush())
    shutil.copymode(source, target)


def _activities(torch):
    """What this build can record, without waking a GPU that the program does not use."""
    activity = torch.profiler.ProfilerActivity
    supported = set(torch.profiler.supported_activities())
    if not torch.cuda.is_initialized():
        supported.discard(getattr(activity, "CUDA", None))
    return supported or {activity.CPU}


def _trace_only(torch):
    """Newer torch can leave out the Python objects that only its own tables need."""
    try:
        from torch._C._profiler import _ExperimentalConfig

        return {"experimental_config": _ExperimentalConfig(trace_only=True)}
    except (ImportError, TypeError):
        return {}
