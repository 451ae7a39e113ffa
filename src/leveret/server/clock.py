"""The one place where the time is read: milliseconds since 1970 that never go back."""

import time

_OFFSET_NS = time.time_ns() - time.monotonic_ns()


def now_ms() -> int:
    return (time.monotonic_ns() + _OFFSET_NS) // 1_000_000
