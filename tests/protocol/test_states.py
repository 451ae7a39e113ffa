"""The states are in an order that comparisons rely on."""

from __future__ import annotations

from leveret.protocol.states import (
    CHANNEL_CLOSING,
    CHANNEL_OPEN,
    CHANNEL_STARTING,
    CLOSING,
    HANDSHAKE,
    HEADER,
    IGNORING_INPUT,
    RUNNING,
)


def test_a_connection_only_goes_on() -> None:
    assert HEADER < HANDSHAKE < RUNNING < CLOSING < IGNORING_INPUT
    assert CHANNEL_STARTING < CHANNEL_OPEN < CHANNEL_CLOSING
