"""Somebody who does no more than so many a second."""

import time

# Who is later than this has missed it: somebody slow does not become faster to make up for it.
LATE_SECONDS = 0.01


class Pace:
    """Waits until what has been done is due; without a rate there is no waiting."""

    def __init__(self, rate: float, started: float) -> None:
        self._rate = rate
        self._started = started

    def wait(self, done: int) -> None:
        if not self._rate:
            return
        ahead = self._started + done / self._rate - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        elif ahead < -LATE_SECONDS:
            self._started -= ahead


class Slices:
    """Counts what was done in each slice of time that has passed."""

    def __init__(self, seconds: float, started: float) -> None:
        self.counts: list[int] = []
        self._seconds = seconds
        self._end = started + seconds
        self._before = 0

    def count(self, done: int, now: float) -> None:
        while now >= self._end:
            self.counts.append(done - self._before)
            self._before = done
            self._end += self._seconds
