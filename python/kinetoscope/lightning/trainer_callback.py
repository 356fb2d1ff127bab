"""KinetoscopeCallback: records a window of the steps of a Trainer of Lightning."""

import sys

from kinetoscope.torch.callback_session import CallbackSession


def _base():
    """Callback of the Lightning that the program uses: `lightning`, or `pytorch_lightning`."""
    if "lightning.pytorch" not in sys.modules and "pytorch_lightning" in sys.modules:
        from pytorch_lightning import Callback

        return Callback
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback
    return Callback


class KinetoscopeCallback(_base()):
    """`Trainer(..., callbacks=[KinetoscopeCallback("run")])`, then `kinetoscope.open("run")`.

    `folder`: made when it is not there, OSError when it cannot be written. `schedule`: as
    ProfilingConfig.profiler_schedule, in steps of the optimizer, of which gradients of several
    batches make one. Other arguments are those of torch.profiler.profile. Only the main process of
    a node records, unless `all_ranks`. Import Lightning before this class.

    Nothing of ours ends the training: what fails is logged to "kinetoscope" and kept in `failure`,
    and the rest of the training is not recorded. A training that raises is closed.
    """

    def __init__(self, folder, schedule="5:1:6:1", *, all_ranks=False, **options):
        super().__init__()
        self._session = CallbackSession(folder, schedule, options)
        self._all_ranks = all_ranks
        self._steps = 0

    @property
    def failure(self):
        """What ended the recording of the last training, or None."""
        return self._session.failure

    def on_train_start(self, trainer, pl_module):
        self._steps = trainer.global_step
        if trainer.local_rank == 0 or self._all_ranks:
            self._session.begin()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step != self._steps:
            self._steps = trainer.global_step
            self._session.step()

    def on_train_end(self, trainer, pl_module):
        self.close()

    def on_exception(self, trainer, pl_module, exception):
        self.close()

    def close(self):
        """Ends the recording. Does nothing without one."""
        self._session.close()
