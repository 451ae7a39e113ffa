"""Where handlers run: a thread of their own for each worker, so that however long they take the connection lives.

Functions are called in the thread one after the other; coroutines run on a loop in it, as many at once as were delivered.
A message whose connection was cut before its turn is passed over: it will come again.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from leveret.client.incoming import Delivery
from leveret.work.handlers import Handle, is_async
from leveret.work.handling import Handling
from leveret.work.line import OpenLine
from leveret.work.message import Message
from leveret.work.retry import Pause

log = logging.getLogger("leveret.work")

Work = tuple[Delivery, OpenLine]


def hands_for(handle: Handle, handling: Handling, consumer_id: str | None, name: str) -> "Hands":
    kind = LoopHands if is_async(handle) else ThreadHands
    return kind(handle, handling, consumer_id, name)


class Hands:
    """A thread that handles messages."""

    def __init__(self, handle: Handle, handling: Handling, consumer_id: str | None, name: str) -> None:
        self._handle = handle
        self._handling = handling
        self._consumer_id = consumer_id
        self._stopping = threading.Event()
        self._pause = Pause()
        self._done: Callable[[], object] | None = None
        self._finished: bool | None = None
        # A daemon: a handler that never ends must not keep the process.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def give(self, delivery: Delivery, line: OpenLine) -> None:
        """Handle this when its turn comes. Called in the connection's thread."""
        raise NotImplementedError

    async def finish(self, grace_s: float) -> bool:
        """Finish the work in hand, leave the rest; whether that could be done in time. Asked again, it says the same."""
        if self._finished is None:
            self._finished = await self._finish(grace_s)
        return self._finished

    async def _finish(self, grace_s: float) -> bool:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        self._done = lambda: loop.call_soon_threadsafe(ended.set)
        self._stopping.set()
        self._wake()
        try:
            async with asyncio.timeout(grace_s):
                while self._thread.is_alive() and not ended.is_set():
                    await ended.wait()
        except TimeoutError:
            self._give_up()
            return False
        return True

    def _wake(self) -> None:
        raise NotImplementedError

    def _give_up(self) -> None:
        """There is no more time. A function cannot be ended; its thread ends with the process."""

    def _run(self) -> None:
        try:
            self._work()
        except BaseException:
            log.exception("%s: internal error", self._thread.name)
        finally:
            if self._done is not None:
                self._done()

    def _work(self) -> None:
        raise NotImplementedError

    def _begun(self, delivery: Delivery, line: OpenLine) -> Message | None:
        """The message if it is to be handled."""
        line.taken()
        if line.cut or self._stopping.is_set():
            return None
        message = Message(delivery, self._consumer_id, line)
        return message if self._handling.begin(message) else None


class ThreadHands(Hands):
    """For functions."""

    def __init__(self, handle: Handle, handling: Handling, consumer_id: str | None, name: str) -> None:
        super().__init__(handle, handling, consumer_id, name)
        self._waiting: SimpleQueue[Work | None] = SimpleQueue()

    def give(self, delivery: Delivery, line: OpenLine) -> None:
        line.came()
        self._waiting.put((delivery, line))

    def _wake(self) -> None:
        self._waiting.put(None)

    def _work(self) -> None:
        while (work := self._waiting.get()) is not None and not self._stopping.is_set():
            delivery, line = work
            message = self._begun(delivery, line)
            if message is not None:
                self._pause.over()
                self._do(message)
            elif not line.cut:
                # Whoever is asked again at once will say the same again.
                self._stopping.wait(self._pause.after_refusal())

    def _do(self, message: Message) -> None:
        try:
            self._handle(message)
        except BaseException as error:  # SystemExit of a handler must not end the worker either
            self._handling.failed(message, error)
        else:
            self._handling.succeeded(message)


class LoopHands(Hands):
    """For coroutines."""

    def __init__(self, handle: Handle, handling: Handling, consumer_id: str | None, name: str) -> None:
        super().__init__(handle, handling, consumer_id, name)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._pausing: list[Work] | None = None

    def give(self, delivery: Delivery, line: OpenLine) -> None:
        line.came()
        self._call(self._take, delivery, line)

    def _wake(self) -> None:
        self._call(self._ended.set)

    def _give_up(self) -> None:
        self._call(self._cancel)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        # The thread, and its loop, may have ended.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _work(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_done())

    async def _until_done(self) -> None:
        await self._ended.wait()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _take(self, delivery: Delivery, line: OpenLine) -> None:
        if self._pausing is not None:
            self._pausing.append((delivery, line))
            return
        message = self._begun(delivery, line)
        if message is not None:
            self._pause.over()
            task = self._loop.create_task(self._do(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif not line.cut and not self._stopping.is_set():
            self._pausing = []
            self._loop.call_later(self._pause.after_refusal(), self._go_on)

    def _go_on(self) -> None:
        waiting, self._pausing = self._pausing or [], None
        for delivery, line in waiting:
            self._take(delivery, line)

    async def _do(self, message: Message) -> None:
        try:
            await self._handle(message)
        except asyncio.CancelledError as error:
            if self._stopping.is_set():
                self._handling.abandoned(message)
            else:
                self._handling.failed(message, error)
        except BaseException as error:
            self._handling.failed(message, error)
        else:
            self._handling.succeeded(message)
