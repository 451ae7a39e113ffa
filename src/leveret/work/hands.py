"""Where handlers run: a thread of their own for each worker, so that however long they take the connection lives.

Functions are called in the thread one after the other; coroutines run on a loop in it, as many at once as were delivered.
A message whose connection was cut before its turn is passed over: it will come again.
"""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from leveret.client.incoming import Delivery
from leveret.work.handlers import Handle, is_async
from leveret.work.handling import Handling
from leveret.work.line import OpenLine
from leveret.work.message import Message
from leveret.work.retry import Pause

# What a thread that has nothing in hand needs to end, also where no time is left.
IDLE_S = 0.2

log = logging.getLogger("leveret.work")

Work = tuple[Delivery, OpenLine]


def hands_for(handle: Handle, handling: Handling, consumer_id: str | None, name: str) -> "Hands":
    kind = LoopHands if is_async(handle) else ThreadHands
    return kind(handle, handling, consumer_id, name)


class Hands:
    """A thread that handles messages. All methods are the connection's thread's, those with an underscore its own."""

    def __init__(self, handle: Handle, handling: Handling, consumer_id: str | None, name: str) -> None:
        self._handle = handle
        self._handling = handling
        self._consumer_id = consumer_id
        self._stopping = threading.Event()
        self._pause = Pause()
        self._ended = asyncio.Event()
        self._finished: bool | None = None
        # A daemon: a handler that never ends must not keep the process.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._owner = asyncio.get_running_loop()
        self._thread.start()

    def give(self, delivery: Delivery, line: OpenLine) -> None:
        """Handle this when its turn comes."""
        raise NotImplementedError

    def forget(self) -> None:
        """The connection is gone, and with it what waits for its turn."""

    async def finish(self, grace_s: float) -> bool:
        """Finish the work in hand, leave the rest; whether that could be done in time. Asked again, it says the same."""
        if self._finished is None:
            self._stopping.set()
            self._wake()
            try:
                async with asyncio.timeout(max(grace_s, IDLE_S)):
                    await self._ended.wait()
            except TimeoutError:
                pass
            self._finished = self._ended.is_set()
        return self._finished

    def give_up(self) -> None:
        """There is no more time, and the connection is cut. A function cannot be ended; its thread ends with the process."""

    def _wake(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self._work()
        except BaseException:
            log.exception("%s: internal error", self._thread.name)
        finally:
            # The loop may be closed by now: nobody waits then.
            with suppress(RuntimeError):
                self._owner.call_soon_threadsafe(self._ended.set)

    def _work(self) -> None:
        raise NotImplementedError

    def _begun(self, delivery: Delivery, line: OpenLine) -> Message | None:
        """The message if it is to be handled."""
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

    def forget(self) -> None:
        with suppress(Empty):
            while True:
                self._waiting.get_nowait()

    def give_up(self) -> None:
        end: Callable[[], None] | None = getattr(self._handle, "give_up", None)
        if end is not None:
            end()

    def _wake(self) -> None:
        self._waiting.put(None)

    def _work(self) -> None:
        while not self._stopping.is_set():
            work = self._waiting.get()
            if work is not None:
                try:
                    self._take(*work)
                except BaseException:  # one message must not cost all others
                    log.exception("%s: internal error", self._thread.name)

    def _take(self, delivery: Delivery, line: OpenLine) -> None:
        line.taken()
        message = self._begun(delivery, line)
        if message is not None:
            self._pause.over()
            self._do(message)
        elif not line.cut:
            # Whoever is asked again at once will say the same again.
            self._stopping.wait(self._pause.after_refusal())

    def _do(self, message: Message) -> None:
        try:
            result = self._handle(message)
            if result is not None and inspect.isawaitable(result):
                # Of a plain function that returns what a coroutine function has.
                asyncio.run(awaited(result))
        except BaseException as error:  # SystemExit of a handler must not end the worker either
            self._handling.failed(message, error)
        else:
            self._handling.succeeded(message)
        finally:
            self._handling.ended()


class LoopHands(Hands):
    """For coroutines."""

    def __init__(self, handle: Handle, handling: Handling, consumer_id: str | None, name: str) -> None:
        super().__init__(handle, handling, consumer_id, name)
        self._tasks: set[asyncio.Task[None]] = set()
        self._told = asyncio.Event()
        self._pausing: list[Work] | None = None

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        super().start()

    def give(self, delivery: Delivery, line: OpenLine) -> None:
        line.came()
        self._call(self._take, delivery, line)

    def give_up(self) -> None:
        self._call(self._cancel)

    def _wake(self) -> None:
        self._call(self._told.set)

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
        await self._told.wait()
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
            task.add_done_callback(lambda done: self._done(done, line))
            return
        line.taken()
        if not line.cut and not self._stopping.is_set():
            self._pausing = []
            self._loop.call_later(self._pause.after_refusal(), self._go_on)

    def _done(self, task: asyncio.Task[None], line: OpenLine) -> None:
        # Only now, so that those at work count among what was read ahead.
        line.taken()
        self._tasks.discard(task)
        # Here and not in the coroutine: one that was cancelled before its first step has never run.
        self._handling.ended()

    def _go_on(self) -> None:
        waiting, self._pausing = self._pausing or [], None
        for delivery, line in waiting:
            self._take(delivery, line)

    async def _do(self, message: Message) -> None:
        try:
            await self._handle(message)
        except asyncio.CancelledError as error:
            # Broken off at the end of everything: the connection's end gives it back.
            if not self._stopping.is_set():
                self._handling.failed(message, error)
        except BaseException as error:
            self._handling.failed(message, error)
        else:
            self._handling.succeeded(message)


async def awaited(result: Any) -> Any:
    return await result
