"""What a client can do, and which tests do it: so that a client's whole surface is tried, and stays so.

(1) A test says with `Surface.covers` what of the client it tries.
(2) What it says is compared with what it did, when it ends (`Surface.recorded`); so nothing is only said.
(3) One test of each client compares all that is said with what the client itself says it can do.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

T = TypeVar("T", bound=Callable[..., Any])


class Surface:
    """What the tests of one module try of one client."""

    def __init__(self) -> None:
        self.covered: set[str] = set()
        self._said: dict[str, set[str]] = {}

    def covers(self, *names: str) -> Callable[[T], T]:
        """The decorated test does all this."""

        def decorate(test: T) -> T:
            self.covered |= set(names)
            self._said[test.__name__] = set(names)
            return test

        return decorate

    @contextmanager
    def recorded(self, request: pytest.FixtureRequest) -> Iterator[set[str]]:
        """A set for what a test does; when it has ended well, all that it says must be in it."""
        did: set[str] = set()
        yield did
        missing = self._said.get(request.function.__name__, set()) - did
        assert not missing, f"said, but not done: {sorted(missing)}"


class Recording:
    """An object whose public methods are noted when they are called."""

    def __init__(self, wrapped: Any, did: set[str], prefix: str = "") -> None:
        self._wrapped = wrapped
        self._did = did
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if not callable(found):
            return Recording(found, self._did, f"{self._prefix}{name}.")

        def call(*args: Any, **options: Any) -> Any:
            result = found(*args, **options)
            self._did.add(self._prefix + name)
            return result

        return call
