"""The thread in which a worker's handler runs, so that heartbeats go on however long the handler takes.

Functions are called one after the other; coroutines run on an event loop of the thread, as many at once as were delivered.
A message whose connection ends before its turn is skipped: the broker delivers it again.
"""

import asyncio
import inspect
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from leveret.client.incoming import Delivery
from leveret.work.backoff import RefusalBackoff
from leveret.work.channel import WorkerChannel
from leveret.work.handler import CommandHandler, CoroutineHandler, MessageHandler, is_coroutine_handler
from leveret.work.message import Message
from leveret.work.policy import MessagePolicy

# An idle thread needs this long to end, even where no time is left.
IDLE_S = 0.2

log = logging.getLogger("leveret.work")

Job = tuple[Delivery, WorkerChannel]


def handler_thread(
    handler: MessageHandler, policy: MessagePolicy, consumer_id: str | None, name: str
) -> "FunctionThread | CoroutineThread":
    """The kind of thread that this handler needs."""
    if is_coroutine_handler(handler):
        return CoroutineThread(handler, policy, consumer_id, name)
    return FunctionThread(handler, policy, consumer_id, name)


class HandlerThread(ABC):
    """A thread that handles messages. Public methods are called from the connection's thread, private ones from its own."""

    def __init__(self, policy: MessagePolicy, consumer_id: str | None, name: str) -> None:
        self._policy = policy
        self._consumer_id = consumer_id
        self._stopping = threading.Event()
        self._backoff = RefusalBackoff()
        self._ended = asyncio.Event()
        self._finished: bool | None = None
        # A daemon: a handler that never returns must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._owner = asyncio.get_running_loop()
        self._thread.start()

    @abstractmethod
    def submit(self, delivery: Delivery, channel: WorkerChannel) -> None:
        """Handle this message when its turn comes."""

    @abstractmethod
    def discard_waiting(self) -> None:
        """The connection has ended: drop what waits for its turn."""

    async def finish(self, grace_s: float) -> bool:
        """Finish what is being handled, drop the rest; whether there was time for it. Called again, it says the same."""
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

    @abstractmethod
    def abandon(self) -> None:
        """End the handler if that is possible: there is no more time, and the connection has ended."""

    @abstractmethod
    def _wake(self) -> None:
        """Have `_work` look at `_stopping`."""

    def _run(self) -> None:
        try:
            self._work()
        except BaseException:
            log.exception("%s: internal error", self._thread.name)
        finally:
            # The loop may be closed by now: nobody waits then.
            with suppress(RuntimeError):
                self._owner.call_soon_threadsafe(self._ended.set)

    @abstractmethod
    def _work(self) -> None:
        """Handle messages until `_stopping`."""

    def _accept(self, delivery: Delivery, channel: WorkerChannel) -> Message | None:
        """The message if it is to be handled."""
        if channel.closed or self._stopping.is_set():
            return None
        message = Message(delivery, self._consumer_id, channel)
        return message if self._policy.begin(message) else None


class FunctionThread(HandlerThread):
    """Calls a function for one message after the other."""

    def __init__(self, handler: MessageHandler, policy: MessagePolicy, consumer_id: str | None, name: str) -> None:
        super().__init__(policy, consumer_id, name)
        self._handler = handler
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()

    def submit(self, delivery: Delivery, channel: WorkerChannel) -> None:
        channel.count_received()
        self._waiting.put((delivery, channel))

    def discard_waiting(self) -> None:
        with suppress(Empty):
            while True:
                self._waiting.get_nowait()

    def abandon(self) -> None:
        # A function cannot be ended; its thread ends with the process.
        if isinstance(self._handler, CommandHandler):
            self._handler.kill()

    def _wake(self) -> None:
        self._waiting.put(None)

    def _work(self) -> None:
        while not self._stopping.is_set():
            job = self._waiting.get()
            if job is not None:
                try:
                    self._take(*job)
                except BaseException:  # one message must not cost all others
                    log.exception("%s: internal error", self._thread.name)

    def _take(self, delivery: Delivery, channel: WorkerChannel) -> None:
        channel.count_taken()
        message = self._accept(delivery, channel)
        if message is not None:
            self._backoff.reset()
            self._handle(message)
        elif not channel.closed:
            # Asked again at once, the reject policy would say the same again.
            self._stopping.wait(self._backoff.next_s())

    def _handle(self, message: Message) -> None:
        try:
            result = self._handler(message)
            if result is not None and inspect.isawaitable(result):
                # A plain function that returns a coroutine.
                asyncio.run(awaited(result))
        except BaseException as error:  # SystemExit of a handler must not end the worker either
            self._policy.failed(message, error)
        else:
            self._policy.succeeded(message)
        finally:
            self._policy.ended()


class CoroutineThread(HandlerThread):
    """Runs a coroutine for each message, on a loop of its own."""

    def __init__(self, handler: CoroutineHandler, policy: MessagePolicy, consumer_id: str | None, name: str) -> None:
        super().__init__(policy, consumer_id, name)
        self._handler = handler
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop_told = asyncio.Event()
        # What comes during a pause after a refusal; None if there is no pause.
        self._held_back: list[Job] | None = None

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        super().start()

    def submit(self, delivery: Delivery, channel: WorkerChannel) -> None:
        channel.count_received()
        self._call(self._take, delivery, channel)

    def discard_waiting(self) -> None:
        """Nothing waits here; what comes after a pause is dropped then, as its channel is closed."""

    def abandon(self) -> None:
        self._call(self._cancel)

    def _wake(self) -> None:
        self._call(self._stop_told.set)

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
        await self._stop_told.wait()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _take(self, delivery: Delivery, channel: WorkerChannel) -> None:
        if self._held_back is not None:
            self._held_back.append((delivery, channel))
            return
        message = self._accept(delivery, channel)
        if message is not None:
            self._backoff.reset()
            task = self._loop.create_task(self._handle(message))
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._done(done, channel))
            return
        channel.count_taken()
        if not channel.closed and not self._stopping.is_set():
            self._held_back = []
            self._loop.call_later(self._backoff.next_s(), self._take_held_back)

    def _done(self, task: asyncio.Task[None], channel: WorkerChannel) -> None:
        # Only now, so that messages being handled count among those that were read ahead.
        channel.count_taken()
        self._tasks.discard(task)
        # Here and not in the coroutine: one that was cancelled before its first step has never run.
        self._policy.ended()

    def _take_held_back(self) -> None:
        waiting, self._held_back = self._held_back or [], None
        for delivery, channel in waiting:
            self._take(delivery, channel)

    async def _handle(self, message: Message) -> None:
        try:
            await self._handler(message)
        except asyncio.CancelledError as error:
            # Cancelled by `abandon`, it has not failed: the broker requeues it as the connection has ended.
            if not self._stopping.is_set():
                self._policy.failed(message, error)
        except BaseException as error:
            self._policy.failed(message, error)
        else:
            self._policy.succeeded(message)


async def awaited(awaitable: Awaitable[object]) -> object:
    return await awaitable
