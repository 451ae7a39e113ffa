"""A node in a thread of its own, with an event loop of its own; whoever starts it waits, in a thread or on another loop.

(1) `ready` is told when it listens, or has failed; `ended` when the loop is closed. Neither ever has an exception:
    `failure` says what went wrong.
(2) Nothing of the process is changed: no signals, no logging, no event loop policy, no settings of the garbage collector.
(3) The loop is asyncio's own, also where uvloop is installed: libuv has a pipe for as long as the process lives, and a
    process that was forked off would crash.
(4) The thread is a daemon, and what is forgotten is stopped when the interpreter exits.
"""

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from leveret.server.config import Config
from leveret.server.endpoint import PROMETHEUS, Endpoint, management_endpoints
from leveret.server.node import Node

if TYPE_CHECKING:
    from leveret.management.server import Management

T = TypeVar("T")

# A client in the thread that stops the broker cannot answer the close: it is not waited for any longer than this.
GRACE_S = 0.05
# Not the machine's, so that what is shown of the broker is the same everywhere.
NODE_NAME = "leveret@localhost"
# In which everything must have happened.
PATIENCE_S = 10.0


class NodeThread:
    """One run of one node."""

    def __init__(self, config: Config, metrics: bool) -> None:
        self._config = config
        self._metrics = metrics
        self.ready: Future[None] = Future()
        self.ended: Future[None] = Future()
        self.failure: BaseException | None = None
        self.listeners: list[Endpoint] = []
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node: Node | None = None
        self._managing = asyncio.Lock()
        self._management: Management | None = None
        self._thread = threading.Thread(target=self._main, name="leveret", daemon=True)

    def begin(self) -> None:
        """Start the thread; `ready` is told when the node is."""
        self._thread.start()
        atexit.register(self.join)

    def ask_to_stop(self) -> None:
        """Have it stopped; `ended` is told when it has. It must be ready."""
        # In a process that was forked off, the thread is not there, but its loop looks as if it ran.
        if self._loop is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # it is just being closed
                self._loop.call_soon_threadsafe(self._stop.set)

    def join(self) -> None:
        """Stop it, if that was not done yet, and return when the thread is gone."""
        if self._thread.is_alive():
            self.ready.result()
            self.ask_to_stop()
            self._thread.join(PATIENCE_S)
            if self._thread.is_alive():
                raise TimeoutError(f"the broker's thread has not ended in {PATIENCE_S:g} s")
        atexit.unregister(self.join)

    def call(self, function: Callable[[Node], Awaitable[T]]) -> T:
        """Await what a function makes of the node, on its loop, and return the result in this thread."""
        if self._loop is None or self._node is None or self.ended.done():
            raise RuntimeError("the broker is not running")
        return asyncio.run_coroutine_threadsafe(awaiting(function, self._node), self._loop).result(PATIENCE_S)

    async def manage(self, node: Node) -> None:
        """Start the HTTP API, if that was not done yet."""
        from leveret.management.server import Management  # noqa: PLC0415 - aiohttp takes longer than all the rest

        async with self._managing:
            if self._management is None:
                management = Management(node, GRACE_S)
                wanted = management_endpoints(self._config)
                await management.start([one for one in wanted if self._metrics or one.protocol != PROMETHEUS])
                self.listeners = list(node.listeners)
                self._management = management

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # whoever waits has to hear it, whatever it is
            self.failure = error
        finally:
            if not self.ready.done():
                self.ready.set_result(None)
            self.ended.set_result(None)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        node = self._node = Node(self._config, guest=True)
        node.broker.settings.node_name = NODE_NAME
        node.on_failed = node.on_stop = self._stop.set
        await node.start()
        self.listeners = list(node.listeners)
        try:
            if self._config.management:
                await self.manage(node)
            self.ready.set_result(None)
            await self._stop.wait()
        finally:
            if self._management is not None:
                await self._management.stop()
            await node.stop(GRACE_S)
        if node.failed is not None:
            raise node.failed


async def awaiting(function: Callable[[Node], Awaitable[T]], node: Node) -> T:
    return await function(node)


async def told(what: "Future[None]") -> None:
    """Wait on this thread's loop until another thread tells."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()

    def tell(_: "Future[None]") -> None:
        with suppress(RuntimeError):  # this loop was closed meanwhile: nobody waits
            loop.call_soon_threadsafe(event.set)

    what.add_done_callback(tell)
    await event.wait()
