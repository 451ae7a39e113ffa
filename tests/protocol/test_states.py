"""The states are in an order that comparisons rely on."""

from __future__ import annotations

from leveret.protocol.states import (
    CHANNEL_CLOSING,
    CHANNEL_OPEN,
    CHANNEL_STARTING,
    CLOSING,
    DEAF,
    HANDSHAKE,
    HEADER,
    RUNNING,
)


def test_a_connection_only_goes_on() -> None:
    assert HEADER < HANDSHAKE < RUNNING < CLOSING < DEAF
    assert CHANNEL_STARTING < CHANNEL_OPEN < CHANNEL_CLOSING
