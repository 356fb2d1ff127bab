"""KinetoscopeCallback: records a window of the steps of a transformers.Trainer."""

from transformers import TrainerCallback

from kinetoscope.torch.callback_session import CallbackSession


class KinetoscopeCallback(TrainerCallback):
    """`Trainer(..., callbacks=[KinetoscopeCallback("run")])`, then `kinetoscope.open("run")`.

    `folder`: made when it is not there, OSError when it cannot be written. `schedule`: as
    ProfilingConfig.profiler_schedule, in steps of the optimizer. Other arguments are those of
    torch.profiler.profile. Only the main process of a node records, unless `all_ranks`.

    Nothing of ours ends the training: what fails is logged to "kinetoscope" and kept in `failure`,
    and the rest of the training is not recorded.
    """

    def __init__(self, folder, schedule="5:1:6:1", *, all_ranks=False, **options):
        self._session = CallbackSession(folder, schedule, options)
        self._all_ranks = all_ranks

    @property
    def failure(self):
        """What ended the recording of the last training, or None."""
        return self._session.failure

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_local_process_zero or self._all_ranks:
            self._session.begin()

    def on_step_end(self, args, state, control, **kwargs):
        self._session.step()

    def on_train_end(self, args, state, control, **kwargs):
        self.close()

    def close(self):
        """Ends the recording, also of a training that raised. Does nothing without one."""
        self._session.close()
