"""A running broker: builds everything, listens, and stops in order. The only place that wires the parts together."""

import asyncio
import gc
import logging
from typing import cast

from leveret.broker.broker import Broker, default_broker
from leveret.server.config import Config
from leveret.server.definitions import apply
from leveret.server.inbox import Inbox
from leveret.server.memory import Heap
from leveret.server.outbox import Outbox
from leveret.server.transport import Transport

BACKLOG = 1024
STOP_S = 5.0
STOP_REASON = "broker forced connection closure with reason 'shutdown'"

log = logging.getLogger("leveret.server")


class Node:
    """One broker on one event loop."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.broker = configured_broker(config)
        self.transports: set[Transport] = set()
        self._servers: list[asyncio.Server] = []
        self._heap: Heap | None = None
        self._outbox: Outbox | None = None

    async def start(self) -> None:
        """Listen; OSError if that cannot be."""
        calm_garbage_collector()
        loop = asyncio.get_running_loop()
        inbox = Inbox(self._config.frame_max)
        self._heap = Heap(loop)
        outbox = self._outbox = Outbox(loop, self.broker, self._heap)
        server = await loop.create_server(
            lambda: Transport(self.broker, inbox, outbox, self.transports, loop),
            self._config.host,
            self._config.port,
            backlog=BACKLOG,
            reuse_address=True,
        )
        self._servers.append(server)

    @property
    def listeners(self) -> dict[str, tuple[str, int]]:
        """Protocol, host and port of what listens."""
        names = [cast("tuple[str, int]", s.getsockname()[:2]) for server in self._servers for s in server.sockets]
        return {"amqp": names[0]} if names else {}

    async def stop(self) -> None:
        """Close every connection with 320 and end when they are gone, or after a few seconds."""
        for server in self._servers:
            server.close()
        for transport in list(self.transports):
            transport.shut(STOP_REASON)
        deadline = asyncio.get_running_loop().time() + STOP_S
        while self.transports and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        for transport in list(self.transports):
            transport.abort()
        await asyncio.sleep(0)
        if self._heap is not None:
            self._heap.close()
        if self._outbox is not None:
            self._outbox.close()
        log.info("stopped")


def configured_broker(config: Config) -> Broker:
    """A broker with what the settings define; guest is there only if they name no users."""
    if config.users:
        broker = Broker(config.settings())
        broker.add_vhost("/")
    else:
        broker = default_broker(config.settings())
    apply(broker, config)
    return broker


def calm_garbage_collector() -> None:
    """Leave what was imported out of collections, and look at old objects seldom: connections clean up after themselves."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 1_000)
