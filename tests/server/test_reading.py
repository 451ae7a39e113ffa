"""Reasons for which a socket is not read."""

import asyncio

from leveret.server.reading import BLOCKED, FLOW, MID_PASS, Reading


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
    reading = Reading(socket)
    reading.pause(MID_PASS)
    reading.pause(FLOW)
    reading.pause(FLOW)
    assert socket.told == ["pause"]
    reading.resume(FLOW | BLOCKED)
    assert (socket.told, reading.paused_for) == (["pause"], MID_PASS)
    reading.resume(MID_PASS)
    assert (socket.told, reading.paused_for) == (["pause", "resume"], 0)


def test_nothing_is_resumed_that_is_read() -> None:
    socket = Socket()
    Reading(socket).resume(MID_PASS)
    assert socket.told == []


def test_socket_that_closes_is_not_read_again() -> None:
    socket = Socket()
    reading = Reading(socket)
    reading.pause(BLOCKED)
    socket.closing = True
    reading.resume(BLOCKED)
    assert (socket.told, reading.paused_for) == (["pause"], BLOCKED)
