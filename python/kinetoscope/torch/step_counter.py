"""Decides which optimizer steps end a training step.

One optimizer is the clock: of those in use, the one that steps least often, and on a tie the last
of the cycle; the steps of the others happen inside its step. A critic that steps five times for
each step of the generator is no clock, nor is the first of two that take turns. Which one it is
shows only after a while, so the clock may move during the first cycles: `clock_changes` then counts
up, and what was measured by the old clock is worth nothing.
"""

import weakref

CYCLES_WATCHED = 3  # each optimizer has stepped so often: the choice is settled
SILENCE_MAX = 64  # steps of others after which a clock is taken for gone


class _Watched:
    def __init__(self, optimizer):
        self.ref = weakref.ref(optimizer)  # an optimizer must not live longer because of us
        self.step_count = 0


class StepCounter:
    def __init__(self):
        self.step_count = 0  # steps of the clock, those before it became the clock too
        self.clock_changes = 0
        self._base_count = 0  # steps that ended before the present watch began
        self._watched = {}  # id -> _Watched, in order of their first step
        self._clock = None
        self._is_settled = False
        self._silence = 0
        self._call_count = 0
        self._stranger = (lambda: None, 0)  # who stepped unexpectedly, and when

    def is_step_end(self, optimizer, dur_ns=0):
        """True when this optimizer's step ends a training step."""
        one = self._watched.get(id(optimizer))
        if one is None or one.ref() is not optimizer:
            one = self._meet(optimizer)
        if one is not None:
            one.step_count += 1
            if not self._is_settled:
                self._choose()
        return self._follow_clock(one)

    def _meet(self, optimizer):
        """A newcomer. When all is settled, one that steps but rarely is left out: None."""
        self._watched = {key: one for key, one in self._watched.items() if one.ref() is not None}
        if self._clock is not None and self._clock.ref() is None:
            self._begin_anew(None)
        elif self._is_settled:
            seen_ref, seen_at = self._stranger
            self._stranger = (weakref.ref(optimizer), self._call_count)
            if seen_ref() is not optimizer or self._call_count - seen_at > SILENCE_MAX:
                return None
            self._begin_anew(self._clock)
        one = self._watched[id(optimizer)] = _Watched(optimizer)
        return one

    def _begin_anew(self, clock):
        """Everyone is watched again; the steps so far have been steps."""
        self._is_settled = False
        self._base_count = self.step_count
        self._clock = clock
        self._watched = {}
        if clock is not None:
            clock.step_count = 0
            self._watched[id(clock.ref())] = clock

    def _choose(self):
        everyone = self._watched.values()
        least = min(one.step_count for one in everyone)
        last = [one for one in everyone if one.step_count == least][-1]
        if self._clock is None:
            self._clock = last
        elif self._clock.step_count > least or least == 1:
            self._move_clock(last)
        cycles = CYCLES_WATCHED if len(self._watched) > 1 else SILENCE_MAX
        self._is_settled = least >= cycles

    def _move_clock(self, one):
        if one is not self._clock:
            self._clock = one
            self.step_count = self._base_count + one.step_count
            self.clock_changes += 1

    def _follow_clock(self, one):
        self._call_count += 1
        if one is self._clock:
            self._silence = 0
            self.step_count = self._base_count + one.step_count
            return True
        self._silence += 1
        if one is not None and self._silence > SILENCE_MAX:
            self._hand_over(one)
        return False

    def _hand_over(self, one):
        """The clock is gone, for another phase of training begins, or it was a rare visitor."""
        if self._is_settled:
            self._base_count = self.step_count - one.step_count
        self._silence = 0
        self._watched = {id(one.ref()): one}
        self._move_clock(one)
