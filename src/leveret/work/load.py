"""Whether this machine, or this process, has enough to do already."""

import os
import threading
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

# For each core, over the last minute.
LOAD = 1.0


class InFlight:
    """How many messages the handlers of this process are at work on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def enter(self, bound: float = inf) -> bool:
        """One more, unless there are as many as `bound` already."""
        with self._lock:
            if self.count >= bound:
                return False
            self.count += 1
            return True

    def leave(self) -> None:
        with self._lock:
            self.count -= 1


def load_of_a_core() -> float:
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def overloaded(bound: Mapping[str, Any], load: Callable[[], float] = load_of_a_core) -> bool:
    """Whether the load that a RejectPolicy allows is passed; without any bound, LOAD is."""
    limit = bound.get("Load", None if "InFlight" in bound else LOAD)
    return limit is not None and load() > limit
