"""A worker's channel: how far it reads ahead of the handler, and what it sends of messages that are rejected later."""

import asyncio
from typing import Any

from leveret.work.channel import READ_AHEAD_MAX, WorkerChannel


class Reading:
    """A client that knows whether it reads."""

    socket_full = False
    on_flow: Any = None
    reads = True

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def pause(self) -> None:
        self.reads = False

    def resume(self) -> None:
        self.reads = True

    def send(self, octets: bytes) -> None:
        self.sent.append(octets)


def test_what_is_kept_is_bounded() -> None:
    """SPEC §10: what is to be given back counts among what was read ahead; of a connection that is cut nothing is said."""

    async def main() -> None:
        client: Any = Reading()
        channel = WorkerChannel(client)
        for tag in range(1, READ_AHEAD_MAX + 1):
            assert client.reads
            channel._reject_later(tag, True, 1000.0)
        assert not client.reads
        for tag in range(1, READ_AHEAD_MAX // 2 + 1):
            channel._reject_delayed(tag, True)
        assert client.reads
        channel.flush()
        assert sum(map(len, client.sent)) == READ_AHEAD_MAX // 2 * 21
        channel.close()
        channel._reject_delayed(READ_AHEAD_MAX, True)
        channel.flush()
        assert len(client.sent) == 1

    asyncio.run(main())


class Taking:
    """A client whose reader is stopped at the very moment when the handler takes everything."""

    def __init__(self) -> None:
        self.socket_full = False
        self.paused = False
        self.channel: Any = None
        self.on_flow: Any = None

    def pause(self) -> None:
        self.paused = True
        for _ in range(READ_AHEAD_MAX):
            self.channel._taken += 1  # by the other thread, which has looked at `_paused` before

    def resume(self) -> None:
        self.paused = False


def test_reader_is_not_stopped_for_ever() -> None:
    async def main() -> None:
        client: Any = Taking()
        channel = client.channel = WorkerChannel(client)
        for _ in range(3 * READ_AHEAD_MAX):
            channel.count_received()
            assert not client.paused

    asyncio.run(main())
