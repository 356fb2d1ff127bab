"""How long steps take while nothing records them: what a report compares profiled steps with."""

from collections import deque

BEFORE_MAX = 512  # the latest are kept
AFTER_MAX = 20
STARTUP_COUNT = 3  # timed steps that still build caches, compile, or choose kernels
AGREE_COUNT = 5
AGREE_PERCENT = 10


class StepTimes:
    def __init__(self):
        self._before_ns = deque(maxlen=BEFORE_MAX)
        self._count = 0  # all that were timed before a window
        self.after_ns = []

    def add_before(self, dur_ns):
        self._count += 1
        self._before_ns.append(dur_ns)

    def add_after(self, dur_ns):
        """True when it was the last one that is wanted."""
        if len(self.after_ns) >= AFTER_MAX:
            return False
        self.after_ns.append(dur_ns)
        return len(self.after_ns) == AFTER_MAX

    @property
    def before_ns(self):
        """Without the start-up; a short wait gives up at most half of what it has."""
        forgotten = self._count - len(self._before_ns)
        startup = max(min(STARTUP_COUNT, self._count // 2) - forgotten, 0)
        return list(self._before_ns)[startup:]

    def agree(self):
        """True when the latest steps, none of them of the start-up, lasted about the same."""
        if self._count < STARTUP_COUNT + AGREE_COUNT:
            return False
        times = self._before_ns
        latest = [times[-index] for index in range(1, AGREE_COUNT + 1)]
        return max(latest) * 100 <= min(latest) * (100 + AGREE_PERCENT)
