"""How long to wait before a connection is tried again, and when to give up."""

import random
from collections.abc import Callable

FIRST_S = 2.0
LONGEST_S = 300.0
# A delay is lengthened by up to this part of it, so that many workers do not come back at once.
JITTER = 0.2
ATTEMPTS = 5


class Retry:
    """Counts network failures in a row. `attempts` is after how many to give up, 0 for never."""

    def __init__(self, min_listen_ms: int, attempts: int = ATTEMPTS, chance: Callable[[], float] = random.random) -> None:
        self._min_listen_s = min_listen_ms / 1000
        self._attempts = attempts
        self._chance = chance
        self.failures = 0

    def delay_s(self, listened_s: float) -> float | None:
        """Listening has ended after so long: how long to wait, or None to give up."""
        if listened_s >= self._min_listen_s:
            # Long enough to be no failure; what comes next may be.
            self.failures = 0
            return 0.0
        self.failures += 1
        if self._attempts and self.failures >= self._attempts:
            return None
        delay_s = FIRST_S * 2 ** min(self.failures - 1, 30) * (1 + JITTER * self._chance())
        return float(min(LONGEST_S, delay_s))


class Pause:
    """After refusing for load a thread pauses: 100 ms, doubling to 5 s."""

    def __init__(self) -> None:
        self._next_s = 0.1

    def after_refusal(self) -> float:
        found, self._next_s = self._next_s, min(5.0, 2 * self._next_s)
        return found

    def over(self) -> None:
        self._next_s = 0.1
