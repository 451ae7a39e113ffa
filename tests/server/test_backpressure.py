"""Reasons for which a socket is not read."""

import asyncio

from leveret.server.backpressure import BLOCKED, FLOW, MID_PASS, Backpressure


class Socket(asyncio.Transport):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.closing = False

    def pause_reading(self) -> None:
        self.told.append("pause")

    def resume_reading(self) -> None:
        self.told.append("resume")

    def is_closing(self) -> bool:
        return self.closing


def test_socket_is_read_when_no_reason_is_left() -> None:
    socket = Socket()
    backpressure = Backpressure(socket)
    backpressure.pause(MID_PASS)
    backpressure.pause(FLOW)
    backpressure.pause(FLOW)
    assert socket.told == ["pause"]
    backpressure.resume(FLOW | BLOCKED)
    assert (socket.told, backpressure.reasons) == (["pause"], MID_PASS)
    backpressure.resume(MID_PASS)
    assert (socket.told, backpressure.reasons) == (["pause", "resume"], 0)


def test_nothing_is_resumed_that_is_read() -> None:
    socket = Socket()
    Backpressure(socket).resume(MID_PASS)
    assert socket.told == []


def test_socket_that_closes_is_not_read_again() -> None:
    socket = Socket()
    backpressure = Backpressure(socket)
    backpressure.pause(BLOCKED)
    socket.closing = True
    backpressure.resume(BLOCKED)
    assert (socket.told, backpressure.reasons) == (["pause"], BLOCKED)
