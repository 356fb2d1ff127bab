"""Lets the ranks of one job open a window of their own choice at the same step.

Each rank could judge by its own step times, but windows that lie beside each other cannot be
compared, and while one rank records the others wait for it. So rank 0 judges, and leaves the number
of the step in a small file of the run's folder; the others look for it when a step ends. Nothing is
sent: a collective of ours among those of the program could block it. A rank that never sees the
file, because it runs on a machine with another folder, goes by its own times after a while.
"""

import os
import zlib
from time import perf_counter_ns

LEAD_STEPS = 2  # a rank may have ended a step more than rank 0, and have looked before
# Steps that a rank waits for word once its own times agree, and so long at least: of short steps 32
# are over before rank 0, whose times may agree later, has said anything.
PATIENCE = 32
PATIENCE_NS = 1_000_000_000


class JointStart:
    def __init__(self, status, world_size=1):
        self.is_alone = world_size <= 1
        self._is_leader = status.rank == 0
        self._path = os.path.join(status.out_dir, f"kscope-run.{_job_of_environment()}.start")
        self._start_step = None
        self._agreed_at = None
        self._agreed_ns = 0
        if not self.is_alone and self._is_leader and os.path.exists(self._path):
            os.unlink(self._path)  # of an earlier start of the same job

    def is_due(self, step_count, is_own_wait_over):
        if self.is_alone:
            return is_own_wait_over
        if self._start_step is None:
            self._start_step = self._lead(step_count, is_own_wait_over)
        return self._start_step is not None and step_count >= self._start_step

    def _lead(self, step_count, is_own_wait_over):
        if not self._is_leader:
            return self._follow(step_count, is_own_wait_over)
        if not is_own_wait_over:
            return None
        start_step = step_count + LEAD_STEPS
        temporary = f"{self._path}.tmp"
        with open(temporary, "w", encoding="ascii") as file:
            file.write(f"{start_step}\n")
        os.replace(temporary, self._path)
        return start_step

    def _follow(self, step_count, is_own_wait_over):
        if os.path.exists(self._path):
            with open(self._path, encoding="ascii") as file:
                return int(file.read())
        if self._agreed_at is None and is_own_wait_over:
            self._agreed_at = step_count
            self._agreed_ns = perf_counter_ns()
        if self._agreed_at is None or step_count < self._agreed_at + PATIENCE:
            return None
        return step_count if perf_counter_ns() - self._agreed_ns >= PATIENCE_NS else None


def _job_of_environment():
    """A word that the ranks of one start of a job share, and other jobs hardly have."""
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    text = ":".join(os.environ.get(name, "") for name in names)
    return f"job{zlib.crc32(text.encode(errors='replace')):08x}"
