"""Decides which calls of an outermost module are the steps of a program that only infers.

The clock is the module in whose calls most time has passed: the decoder and not the encoder that
ran once before it, the model and not the loss or the transform beside it. It may move during the
first calls; `clock_changes` then counts up, as in StepCounter.
"""

import weakref

CALLS_WATCHED = 32  # then the choice is settled
CLEARLY_MORE = 2  # so many times the time of the clock: as long as they are alike it stays
SILENCE_MAX = 64  # calls of others after which a clock is taken for gone


class _Watched:
    def __init__(self, module):
        self.ref = weakref.ref(module)
        self.step_count = 0
        self.dur_ns = 0


class CallCounter:
    def __init__(self):
        self.step_count = 0
        self.clock_changes = 0
        self._watched = {}  # id -> _Watched
        self._clock = None
        self._call_count = 0
        self._silence = 0

    def is_step_end(self, module, dur_ns=0):
        """True when this call, that lasted so long, was a step."""
        self._call_count += 1
        one = self._watched.get(id(module))
        if one is None or one.ref() is not module:
            one = self._meet(module)
        one.step_count += 1
        one.dur_ns += dur_ns
        if self._call_count <= CALLS_WATCHED:
            self._choose(one)
        return self._follow_clock(one)

    def _meet(self, module):
        """A module that nobody holds any more makes room; few programs have more than two."""
        self._watched = {key: one for key, one in self._watched.items() if one.ref() is not None}
        one = self._watched[id(module)] = _Watched(module)
        return one

    def _choose(self, one):
        if self._clock is None:
            self._clock = one
        elif one is not self._clock and one.dur_ns > CLEARLY_MORE * self._clock.dur_ns:
            self._clock = one
            self.step_count = one.step_count - 1
            self.clock_changes += 1

    def _follow_clock(self, one):
        if one is self._clock:
            self._silence = 0
            self.step_count += 1
            return True
        self._silence += 1
        if self._silence > SILENCE_MAX or self._clock.ref() is None:
            self._clock = one  # another phase of the program: its steps go on from here
            self._silence = 0
        return False
