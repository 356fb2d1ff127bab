"""One recording window: drives torch.profiler for a few steps and writes its trace.

Used as: open, then `advance` at each end of a step until it says why the window ended, then `save`.
`cut` ends it inside a step; then the trace holds the steps so far and says so. The caller catches
what torch raises. A window of times records shapes and memory; Python stacks cost most of all and
have a window of their own, whose times mean nothing.
"""

import contextlib
import json
import os
import time

from kinetoscope.torch.gpu_tracing import last_session
from kinetoscope.torch.process_meter import ProcessMeter
from kinetoscope.torch.window_limits import WindowLimits

TIMES, STACKS = "times", "stacks"


class Window:
    def __init__(self, torch, spec, first_step, purpose=TIMES, has_successor=lambda window: False):
        """`first_step` is the number of the step that begins now: N of ProfilerStep#N.
        `has_successor`, asked at the end, says whether another window begins at once."""
        self.purpose = purpose
        self._torch = torch
        self._has_successor = has_successor
        self.ended_by = None
        self.closed_ns = None  # Unix time at which it stopped to record
        self.waited_part = 0.0  # of its time in which its thread could run and had no core
        self._warmup = spec.warmup
        self._first_step = first_step
        self._done_count = 0
        self._is_exported = False
        self._limits = WindowLimits(spec)
        self.meter = ProcessMeter(torch)
        action = torch.profiler.ProfilerAction

        def schedule(step):
            # The end is a stop: nobody knows yet which step is the last.
            index = max(step - first_step, 0)  # the constructor asks for step 0
            return action.WARMUP if index < spec.warmup else action.RECORD

        has_stacks = purpose is STACKS
        self._profiler = torch.profiler.profile(
            activities=_activities(torch),
            schedule=schedule,
            record_shapes=True,
            profile_memory=not has_stacks,
            with_stack=has_stacks,
            **({} if has_stacks else _trace_only(torch)),
        )
        self._profiler.step_num = first_step

    def open(self):
        self._limits.begin()
        self._profiler.start()
        if self._warmup == 0:
            self._begin_kept()

    def _begin_kept(self):
        self._limits.begin_kept()
        self.meter.begin()

    def advance(self, describe):
        """Ends a step. When it was the last, the window is closed and the reason returned;
        `describe` then gives what the trace says about itself."""
        if self.ended_by is not None:
            return self.ended_by  # an interrupt came between the end and the file
        self._done_count += 1
        kept = self.recorded_count
        ended_by = self._limits.reached(kept) if kept > 0 else None
        if ended_by is None:
            self._profiler.step()
            if self._done_count == self._warmup:
                self._begin_kept()
        else:
            self._close(ended_by, describe)
        return ended_by

    def cut(self, reason, describe):
        """Ends the window inside a step; does nothing when it has ended."""
        if self.ended_by is None:
            self._close(reason, describe, cut_step=self._first_step + self._done_count)

    def drop(self):
        """Stops recording, and nothing is kept."""
        profiler, self._profiler = self._profiler, None
        if self.ended_by is None and profiler is not None:
            profiler.stop()

    def _close(self, ended_by, describe, cut_step=None):
        if self.recorded_count > 0:
            members = {**describe(), "purpose": self.purpose, "ended_by": ended_by}
            members.update(cut_step=cut_step, bytes_estimated=self._limits.bytes_estimated)
            members["process"] = process = self.meter.members()
            self.waited_part = process.get("thread_wait_ns", 0) / max(process.get("wall_ns", 1), 1)
            self._profiler.add_metadata_json("kinetoscope", json.dumps(members))
        # A window is cut when another session, ours or the program's, may begin at once.
        is_last = cut_step is None and not self._has_successor(self)
        with last_session(self._torch) if is_last else contextlib.nullcontext():
            self._profiler.stop()
        self.closed_ns = time.time_ns()
        self.ended_by = ended_by

    @property
    def recorded_count(self):
        """Kept steps that are complete."""
        return max(self._done_count - self._warmup, 0)

    @property
    def bytes_estimated(self):
        return self._limits.bytes_estimated

    def save(self, path):
        """Writes the trace, compressed, under a temporary name first. After an interrupt it may be
        called again; torch writes a trace only once, so its file then still lies there."""
        plain = f"{path}.plain.tmp"
        packed = f"{path}.tmp"
        try:
            if not self._is_exported:
                self._profiler.export_chrome_trace(plain)
                self._is_exported = True
            _compress(plain, packed)
            os.replace(packed, path)
            os.unlink(plain)
        except Exception:
            _remove(plain, packed)
            raise
        self._profiler = None  # frees the events


def _remove(*paths):
    for path in paths:
        if os.path.exists(path):
            os.unlink(path)


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
