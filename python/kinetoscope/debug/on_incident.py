"""What is switched on for some steps when a training goes wrong: anomaly detection, a profiler."""

import os

import torch

from kinetoscope.torch.callback_session import CallbackSession

STEPS = 3


class Anomaly:
    """torch's anomaly detection, for some steps, or until end()."""

    def __init__(self):
        self._before = None
        self._left = None

    def begin(self, steps=None):
        if self._before is None:
            self._before = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
        self._left = steps
        torch.autograd.set_detect_anomaly(True)

    def step(self):
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.end()

    def end(self):
        before, self._before, self._left = self._before, None, None
        if before is not None:
            torch.autograd.set_detect_anomaly(*before)


class ProfilerWindow:
    """A window of torch.profiler that begins behind the next step, unless another one runs."""

    def __init__(self, session, folder):
        self._session = session
        self._folder = os.fspath(folder or "kinetoscope_profiles")
        self._wanted = 0
        self._left = 0
        self._window = None

    def request(self, steps=STEPS):
        if self._window is None:
            self._wanted = steps

    def step_ended(self, optimizer, scaler):
        if self._window is not None:
            self._window.step()
            self._left -= 1
            if self._left <= 0:
                self.finish()
        elif self._wanted and not _is_profiling():
            self._begin()

    def _begin(self):
        self._left, self._wanted = self._wanted, 0
        self._window = CallbackSession(self._folder, "RECORD_AND_SAVE", {})
        self._window.begin()

    def finish(self):
        window, self._window = self._window, None
        if window is not None:
            window.close()
            failure = window.failure and str(window.failure)
            self._session.write("profiler", {"folder": self._folder, "failure": failure})


def _is_profiling():
    """Whether a profiler runs already: a process has room for one."""
    return torch.autograd.profiler._is_profiler_enabled
