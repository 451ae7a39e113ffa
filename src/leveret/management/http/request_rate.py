"""How many requests a second an address may make; more are answered with 429, and when to come again."""

REMEMBERED_MAX = 10_000


class RequestRates:
    """A bucket for each address, which holds as many requests as it may make in a second, and is filled in one."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        # What was taken, and when (ms) that was so.
        self._taken: dict[str, tuple[float, int]] = {}

    def take(self, address: str, now: int) -> bool:
        """Whether there may be one more."""
        if not self._per_second:
            return True
        taken, at = self._taken.pop(address, (0.0, now))
        taken = max(0.0, taken - max(0, now - at) * self._per_second / 1000)
        allowed = taken + 1 <= self._per_second
        if len(self._taken) >= REMEMBERED_MAX:
            del self._taken[next(iter(self._taken))]
        self._taken[address] = (taken + 1 if allowed else taken, now)
        return allowed
