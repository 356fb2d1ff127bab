"""kinetoscope.profile and kinetoscope.handler: the two shortest ways to a report."""

import kinetoscope
from kinetoscope.torch.trace_session import LOG, TraceSession, activities, make_folder


class profile:  # noqa: N801 - used as torch.profiler.profile is
    """Records what happens in the block into a folder, which kinetoscope.open reads.

        with kinetoscope.profile("run") as p:
            for batch in loader:
                train(batch)
                p.step()
        print(kinetoscope.open("run"))

    `folder`: made when it is not there. `schedule`: as ProfilingConfig.profiler_schedule; without
    one all of the block is a window. Labelled regions (profile_operation) are recorded too, unless
    a recording is on already. Other arguments are those of torch.profiler.profile.

    RuntimeError when a torch profiler runs already; OSError when the folder cannot be written.
    An exception of the block passes, and what was recorded until then is kept. What fails in
    step(), as a full disk, ends the recording; the block goes on, and its end raises it.
    """

    def __init__(
        self,
        folder="kinetoscope_profiles",
        *,
        schedule="RECORD_AND_SAVE",
        record_shapes=True,
        profile_memory=True,
        with_stack=False,
        with_flops=False,
    ):
        self._options = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
        }
        self._folder = folder
        self._schedule = schedule
        self._session = None
        self._owns_recording = False

    def step(self):
        """Says that a step has ended. RuntimeError outside of the block."""
        if self._session is None:
            raise RuntimeError("step() is for inside of the with block")
        self._session.step()

    def __enter__(self):
        if self._session is not None:
            raise RuntimeError("this profile is in use already")
        session = TraceSession(
            self._folder, self._schedule, activities=activities(), **self._options
        )
        session.start()
        self._session = session
        try:
            self._owns_recording = not kinetoscope.is_recording()
            if self._owns_recording:
                kinetoscope.start_recording(session.folder)
        except BaseException:
            self._owns_recording = False
            self._stop()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            self._stop()
        except Exception:
            if kind is None:
                raise
        return False

    def _stop(self):
        session, self._session = self._session, None
        try:
            session.stop()
        finally:
            if self._owns_recording:
                self._owns_recording = False
                kinetoscope.stop_recording()


def handler(folder):
    """For torch.profiler.profile(on_trace_ready=kinetoscope.handler(folder)).

    Each trace is written into the folder, which kinetoscope.open and `kscope report` read. OSError
    when the folder cannot be written, already here; what fails later is logged to "kinetoscope", so
    that the program's loop goes on.
    """
    session = TraceSession(make_folder(folder))

    def save(profiler):
        try:
            session.save(profiler)
        except Exception as failure:
            LOG.warning("A trace is missing: %s: %s", type(failure).__name__, failure)

    return save
