"""Sleeps whose true length is known: what a test compares measured times with."""

import time


class Naps(dict):
    def take(self, what, seconds):
        start = time.perf_counter()
        time.sleep(seconds)
        self.setdefault(what, []).append(time.perf_counter() - start)

    def total(self, what):
        return sum(self[what])
