"""Whether this machine, or this process, has enough to do already."""

import os
import threading
from collections.abc import Mapping
from typing import Any

# Of the cores, over the last minute.
LOAD = 1.0


class InFlight:
    """How many messages the handlers of this process are at work on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def add(self, number: int) -> None:
        with self._lock:
            self.count += number


def overloaded(bound: Mapping[str, Any], in_flight: int) -> bool:
    """Whether a bound is passed: a load for each core, or messages in hand."""
    if "InFlight" in bound and in_flight >= bound["InFlight"]:
        return True
    limit = bound.get("Load", None if "InFlight" in bound else LOAD)
    return limit is not None and os.getloadavg()[0] / (os.cpu_count() or 1) > limit
