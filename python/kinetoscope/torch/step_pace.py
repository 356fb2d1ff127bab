"""How far a process is, for who looks at its status file while it runs: how many steps had ended at
some moments of the last minutes.

A moment is noted, and the file written, with the first step that ends two seconds or more after the
last time. A file system that takes long for it is asked less often, so that at most one part in
WRITE_SHARE of the time goes there.
"""

import time
from collections import deque

POINTS_MAX = 41
INTERVAL_NS = 2_000_000_000
WRITE_SHARE = 200


class StepPace:
    def __init__(self):
        self._steps = deque(maxlen=POINTS_MAX)
        self._times_ns = deque(maxlen=POINTS_MAX)
        self.due_ns = 0  # by perf_counter_ns; the first step is noted

    def note(self, now_ns, step_count):
        """Step number `step_count` has just ended."""
        self._steps.append(step_count)
        self._times_ns.append(time.time_ns())
        self.due_ns = now_ns + INTERVAL_NS

    def written(self, now_ns, cost_ns):
        self.due_ns = max(self.due_ns, now_ns + cost_ns * WRITE_SHARE)

    def forget(self):
        """What counted as a step until now was none."""
        self._steps.clear()
        self._times_ns.clear()
        self.due_ns = 0

    def members(self):
        return {"pace_steps": list(self._steps), "pace_ns": list(self._times_ns)}
