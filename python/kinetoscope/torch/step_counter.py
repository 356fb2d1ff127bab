"""Decides which optimizer steps end a training step.

One optimizer is the clock: the first that steps. Steps of the others happen inside its step. When
the clock is gone, or has been silent while another one stepped many times (a second training
phase), the other one takes over.
"""

import weakref

SILENCE_MAX = 32


class StepCounter:
    def __init__(self):
        self._clock = None  # weak: an optimizer must not live longer because of us
        self._others_since = 0

    def is_step_end(self, optimizer):
        """True when this optimizer's step ends a training step."""
        clock = self._clock() if self._clock is not None else None
        if clock is optimizer:
            self._others_since = 0
            return True
        self._others_since += 1
        if clock is None or self._others_since > SILENCE_MAX:
            self._clock = weakref.ref(optimizer)
            self._others_since = 0
            return True
        return False
