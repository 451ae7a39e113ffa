"""Logins, refused ones too: how many by each protocol and, if that is wanted, from which address as which user."""

from collections.abc import Callable

# Anybody can try any name from many addresses: so many are known apart, and of longer names only the beginning.
SOURCES_MAX = 10_000
NAME_MAX = 255

Source = tuple[str, str, str]


class Attempts:
    """How often it was tried, and what came of it."""

    __slots__ = ("failed", "succeeded")

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0

    def count(self, succeeded: bool) -> None:
        if succeeded:
            self.succeeded += 1
        else:
            self.failed += 1

    @property
    def total(self) -> int:
        return self.succeeded + self.failed


class Logins:
    """Attempts by protocol (amqp091, http); with `by_source` also by address, user and protocol, the oldest forgotten."""

    __slots__ = ("by_source", "on_attempt", "protocols", "sources")

    def __init__(self, by_source: bool = False) -> None:
        self.by_source = by_source
        self.protocols: dict[str, Attempts] = {}
        self.sources: dict[Source, Attempts] = {}
        # Called with each: protocol, address, user, and whether it has succeeded.
        self.on_attempt: Callable[[str, str, str, bool], None] | None = None

    def count(self, protocol: str, address: str, user: str, succeeded: bool) -> None:
        """Somebody has tried to log in."""
        self.protocols.setdefault(protocol, Attempts()).count(succeeded)
        if self.on_attempt is not None:
            self.on_attempt(protocol, address, user[:NAME_MAX], succeeded)
        if self.by_source and (address or user):
            self._attempts_from((address, user[:NAME_MAX], protocol)).count(succeeded)

    def reset(self) -> None:
        """Begin anew."""
        self.protocols = {}
        self.sources = {}

    def _attempts_from(self, source: Source) -> Attempts:
        found = self.sources.pop(source, None)
        if found is None:
            found = Attempts()
            if len(self.sources) >= SOURCES_MAX:
                del self.sources[next(iter(self.sources))]
        self.sources[source] = found
        return found
