"""Programs that the checks on real hardware start: those of this folder, and tests/faults."""

import os
import subprocess

SECONDS_MAX = 300

os.environ["XDG_CACHE_HOME"] = os.devnull  # each report reads its trace


class Failed(Exception):
    pass


def call(*command, env=None):
    """What the program prints; Failed when it ends with another status than 0, or not in time."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS_MAX,
            check=False,
            env=env,
        )
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{words[:3]} took more than {SECONDS_MAX} s") from late
    if done.returncode:
        end = " | ".join((done.stdout + done.stderr).strip().splitlines()[-3:])
        raise Failed(f"exit status {done.returncode} of {' '.join(words)}: {end}")
    return done.stdout
