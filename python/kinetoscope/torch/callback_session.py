"""What callbacks of training frameworks share: a session that never ends the training."""

import logging

from kinetoscope.torch.trace_session import TraceSession, activities, make_folder, schedule_of

LOG = logging.getLogger("kinetoscope")


class CallbackSession:
    """Records a window of steps into a folder, as kinetoscope.profile does.

    `folder`: made when it is not there, OSError when it cannot be written. `schedule`: as
    ProfilingConfig.profiler_schedule; ValueError for one that is none. Other arguments are those of
    torch.profiler.profile.

    Nothing of ours ends the training: what fails is logged to "kinetoscope" and kept in `failure`,
    and the rest of the training is not recorded.
    """

    def __init__(self, folder, schedule, options):
        self.failure = None
        self._folder = make_folder(folder)
        self._schedule = schedule
        self._options = {"record_shapes": True, "profile_memory": True, **options}
        self._session = None
        schedule_of(schedule)  # one that is none is said now

    def begin(self):
        """The training starts. What an earlier one that raised left open is closed."""
        self.close()
        self.failure = None
        self._softly(self._start)

    def step(self):
        """A step has ended."""
        if self._session is not None:
            self._softly(self._session.step)

    def close(self):
        """Ends the recording; does nothing without one."""
        session, self._session = self._session, None
        if session is not None:
            self._softly(session.stop)

    def _start(self):
        session = TraceSession(
            self._folder, self._schedule, activities=activities(), **self._options
        )
        session.start()
        self._session = session

    def _softly(self, action):
        try:
            action()
        except Exception as failure:
            LOG.warning("Not profiled: %s: %s", type(failure).__name__, failure)
            self.failure = failure
            session, self._session = self._session, None
            if session is not None:
                session.drop()
