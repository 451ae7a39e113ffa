"""The TLS handshakes in progress, of all listeners.

(1) There are no more than so many at once. One more, and the oldest of the address with the most gives way: who hangs, or
    opens many, keeps nobody else out.
(2) A step of one takes a millisecond of calculation. In a turn of the loop no more is done of them than takes two; the
    others wait for later turns, and clients that are connected have theirs between.
(3) Those who are cut off, or take too long, are counted, and said once a second: thousands have one line.
"""

import asyncio
import logging
from collections import deque
from typing import Protocol

STEP_S = 0.002
SAY_S = 1.0

log = logging.getLogger("leveret.tls")


class Handshake(Protocol):
    """One of them, as it is asked to go on, or to end."""

    host: str

    def step(self) -> None: ...

    def give_way(self) -> None: ...


class Handshakes:
    """Those that have begun and not ended, the oldest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, count_max: int, timeout_s: float) -> None:
        self._loop = loop
        self._count_max = count_max
        self.timeout_s = timeout_s
        self._hosts: dict[str, dict[Handshake, None]] = {}
        self._ready: deque[Handshake] = deque()
        self._scheduled = False
        # What is to be said, with how often it was, and of which address last.
        self._untold: dict[str, tuple[int, str]] = {}
        self.count = 0

    def begin(self, one: Handshake) -> None:
        """It counts until `end`."""
        if self.count >= self._count_max:
            self._make_room()
        self._hosts.setdefault(one.host, {})[one] = None
        self.count += 1

    def end(self, one: Handshake) -> None:
        """It is done, or the client is gone; once more does nothing."""
        host = self._hosts.get(one.host)
        if host is not None and one in host:
            del host[one]
            self.count -= 1
            if not host:
                del self._hosts[one.host]

    def go_on(self, one: Handshake) -> None:
        """The client has said something: have a step taken when it is its turn."""
        self._ready.append(one)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        until = self._loop.time() + STEP_S
        while self._ready and self._loop.time() < until:
            self._ready.popleft().step()
        self._scheduled = bool(self._ready)
        if self._scheduled:
            self._loop.call_soon(self._turn)

    def _make_room(self) -> None:
        most = max(self._hosts.values(), key=len)
        oldest = next(iter(most))
        self.end(oldest)
        oldest.give_way()
        self.tell(f"TLS handshakes cut off, as there were more than {self._count_max} at once", oldest.host)

    def tell(self, what: str, host: str) -> None:
        """Have it in the log soon, with how often it was."""
        if not self._untold:
            self._loop.call_later(SAY_S, self._say)
        self._untold[what] = (self._untold.get(what, (0, ""))[0] + 1, host)

    def _say(self) -> None:
        untold, self._untold = self._untold, {}
        for what, (count, host) in untold.items():
            log.warning("%s: %d in the last second, the last one from %s", what, count, host)
