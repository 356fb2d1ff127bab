"""KinetoscopeCallback: records a window of the steps of a transformers.Trainer."""

import logging

from transformers import TrainerCallback

from kinetoscope.torch.trace_session import TraceSession, activities, make_folder, schedule_of

LOG = logging.getLogger("kinetoscope")


class KinetoscopeCallback(TrainerCallback):
    """`Trainer(..., callbacks=[KinetoscopeCallback("run")])`, then `kinetoscope.open("run")`.

    `folder`: made when it is not there, OSError when it cannot be written. `schedule`: as
    ProfilingConfig.profiler_schedule, in steps of the optimizer. Other arguments are those of
    torch.profiler.profile. Only the main process of a node records, unless `all_ranks`.

    Nothing of ours ends the training: what fails is logged to "kinetoscope" and kept in `failure`,
    and the rest of the training is not recorded.
    """

    def __init__(self, folder, schedule="5:1:6:1", *, all_ranks=False, **options):
        self.failure = None
        self._folder = make_folder(folder)
        self._schedule = schedule
        self._all_ranks = all_ranks
        self._options = {"record_shapes": True, "profile_memory": True, **options}
        self._session = None
        schedule_of(schedule)  # one that is none is said now

    def on_train_begin(self, args, state, control, **kwargs):
        self._softly(self._begin, state)

    def on_step_end(self, args, state, control, **kwargs):
        if self._session is not None:
            self._softly(self._session.step)

    def on_train_end(self, args, state, control, **kwargs):
        self.close()

    def close(self):
        """Ends the recording, also of a training that raised. Does nothing without one."""
        session, self._session = self._session, None
        if session is not None:
            self._softly(session.stop)

    def _begin(self, state):
        self.close()  # of a training that raised
        self.failure = None
        if state.is_local_process_zero or self._all_ranks:
            session = TraceSession(
                self._folder, self._schedule, activities=activities(), **self._options
            )
            session.start()
            self._session = session

    def _softly(self, action, *args):
        try:
            action(*args)
        except Exception as failure:
            LOG.warning("Not profiled: %s: %s", type(failure).__name__, failure)
            self.failure = failure
            session, self._session = self._session, None
            if session is not None:
                session.drop()
