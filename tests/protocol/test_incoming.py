"""A message on its way in."""

from __future__ import annotations

import pytest

from leveret.errors import FrameError
from leveret.protocol.incoming import Incoming


def test_message_is_whole_when_its_body_is() -> None:
    incoming = Incoming(b"method")
    assert incoming.header is None
    incoming.begin(b"header", 5)
    incoming.add(b"ab")
    incoming.add(b"")
    assert not incoming.whole()
    incoming.add(b"cde")
    assert incoming.whole()
    parts: list[object] = [incoming.method, incoming.header, bytes(incoming.body)]
    assert parts == [b"method", b"header", b"abcde"]


def test_empty_message_is_whole_at_once() -> None:
    incoming = Incoming(b"method")
    incoming.begin(b"header", 0)
    assert incoming.whole()


def test_more_than_was_announced_is_refused() -> None:
    incoming = Incoming(b"method")
    incoming.begin(b"header", 2)
    incoming.add(b"a")
    with pytest.raises(FrameError, match="content body frame exceeds remaining content size"):
        incoming.add(b"bc")
