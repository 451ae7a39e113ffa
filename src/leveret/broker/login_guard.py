"""Guessing passwords is slowed: after some failed logins of one address or of one name, few more are looked at.

(1) Each failed login is remembered, and forgotten after a second: an address may fail `burst` times at once, and then once
    a second. Until then its logins are refused unread. For a name it is five times as many, since others than its user may
    guess: one address alone cannot keep it out.
(2) Who has logged in from an address before is known there, and is not refused for what others do at that address or with
    that name: only for its own failures, from there.
(3) Of an IPv6 address the first 64 bits count: one machine has as many as it likes of the rest.
(4) So many addresses and names are remembered; of more, those are forgotten that have not been seen for the longest time.
"""

import ipaddress
from functools import lru_cache
from typing import TypeVar

FORGOTTEN_AFTER_MS = 1000
NAME_SHARE = 5
REMEMBERED_MAX = 10_000
NAME_MAX = 255

Key = tuple[str, str, str]
K = TypeVar("K")
V = TypeVar("V")


class Failures:
    """How many there are, less what was forgotten up to `at` (ms)."""

    __slots__ = ("at", "count")

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0.0

    def forget(self, now: int, pace: int) -> None:
        """Forget `pace` of them a second."""
        self.count = max(0.0, self.count - max(0, now - self.at) * pace / FORGOTTEN_AFTER_MS)
        self.at = now


class LoginGuard:
    """Failed logins by address and by name; with a `burst` of 0 nothing is refused. Times are in ms."""

    __slots__ = ("_burst", "_failures", "_known", "refused")

    def __init__(self, burst: int = 0) -> None:
        self._burst = burst
        self._failures: dict[Key, Failures] = {}
        self._known: dict[tuple[str, str], None] = {}
        # How many were refused unread.
        self.refused = 0

    def wait_ms(self, address: str, name: str, now: int) -> int:
        """How long a login has to wait until it is looked at; 0 if it is at once."""
        if not self._burst:
            return 0
        wait = 0
        for key, share in self._keys(address, name):
            failures = self._failures.get(key)
            if failures is not None:
                failures.forget(now, share)
                over = failures.count + 1 - self._burst * share
                if over > 0:
                    wait = max(wait, int(over * FORGOTTEN_AFTER_MS / share) + 1)
        if wait:
            self.refused += 1
        return wait

    def count(self, address: str, name: str, succeeded: bool, now: int) -> None:
        """A login was looked at."""
        if not self._burst:
            return
        if succeeded:
            remember(self._known, (network(address), name[:NAME_MAX]), None)
            return
        for key, share in self._keys(address, name):
            failures = self._failures.pop(key, None) or Failures(now)
            failures.forget(now, share)
            failures.count += 1
            remember(self._failures, key, failures)

    def _keys(self, address: str, name: str) -> list[tuple[Key, int]]:
        """What counts for a login, and how much more of it may be."""
        address, name = network(address), name[:NAME_MAX]
        if (address, name) in self._known:
            return [(("pair", address, name), 1)]
        keys: list[tuple[Key, int]] = [(("address", address, ""), 1)]
        # Who shows a token says no name beforehand: they have none in common.
        return [*keys, (("name", name, ""), NAME_SHARE)] if name else keys


@lru_cache(1000)
def network(address: str) -> str:
    """An address, or of one of IPv6 the part that one machine has."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return address


def remember(known: dict[K, V], key: K, value: V) -> None:
    """Add it as the newest, and forget the oldest if there are too many."""
    known.pop(key, None)
    if len(known) >= REMEMBERED_MAX:
        del known[next(iter(known))]
    known[key] = value
