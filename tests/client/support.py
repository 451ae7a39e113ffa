"""A peer that says what a test wants it to say, over a real socket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from leveret.client.client import Client
from leveret.uri import Uri, parse_uri
from leveret.wire import spec
from leveret.wire.methods import decode_method, write_method

M = TypeVar("M", bound=spec.Method)


class Peer:
    """The broker's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, channel: int, method: spec.Method) -> None:
        out = bytearray()
        write_method(out, channel, method)
        self.writer.write(bytes(out))

    async def frame(self) -> tuple[int, bytes]:
        head = await self.reader.readexactly(7)
        payload = await self.reader.readexactly(int.from_bytes(head[3:], "big") + 1)
        return head[0], payload[:-1]

    async def expect(self, kind: type[M]) -> M:
        while True:
            frame, payload = await self.frame()
            if frame == 1:
                found = decode_method(int.from_bytes(payload[:4], "big"), payload, 4, len(payload))
                assert isinstance(found, kind), found
                return found

    async def welcome(self, heartbeat_s: int = 0, frame_max: int = 131_072) -> spec.ConnectionTuneOk:
        """The whole handshake, as a broker does it."""
        await self.reader.readexactly(8)
        self.send(0, spec.ConnectionStart(0, 9, {}, b"PLAIN", b"en_US"))
        await self.expect(spec.ConnectionStartOk)
        self.send(0, spec.ConnectionTune(10, frame_max, heartbeat_s))
        tuned = await self.expect(spec.ConnectionTuneOk)
        await self.expect(spec.ConnectionOpen)
        self.send(0, spec.ConnectionOpenOk())
        await self.expect(spec.ChannelOpen)
        self.send(1, spec.ChannelOpenOk())
        return tuned


@asynccontextmanager
async def peer(talk: Callable[[Peer], Awaitable[Any]]) -> AsyncIterator[Uri]:
    """Where a peer listens that talks so; a fault of its own fails the test."""
    tasks: list[asyncio.Task[Any]] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def talked() -> None:
            try:
                # That the client hangs up is no fault.
                with suppress(asyncio.IncompleteReadError, ConnectionError):
                    await talk(Peer(reader, writer))
            finally:
                writer.transport.abort()

        tasks.append(asyncio.ensure_future(talked()))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield parse_uri(f"amqp://127.0.0.1:{port}?heartbeat=1&connection_timeout=2000")
    finally:
        server.close()
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)


class Heard:
    """What a client has been told of."""

    def __init__(self, client: Client) -> None:
        self.deliveries: list[Any] = []
        self.confirms: list[tuple[int, bool, bool]] = []
        self.cancelled: list[str] = []
        self.faults: list[Exception] = []
        self.flows = 0
        client.on_delivery = self.deliveries.append
        client.on_confirm = lambda *told: self.confirms.append(told)
        client.on_cancelled = self.cancelled.append
        client.on_closed = self.faults.append
        client.on_flow = self._on_flow

    def _on_flow(self) -> None:
        self.flows += 1


async def until(condition: Callable[[], object]) -> None:
    """Return as soon as this is so."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)
