"""aio-pika's patterns, RPC and Master/Worker, against the broker."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelNotFoundEntity, MessageProcessError
from aio_pika.patterns import RPC, JsonMaster, JsonRPC, Master, NackMessage, RejectMessage

if TYPE_CHECKING:
    from tests.interop.conftest import Broker

Unique = Callable[[], str]


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(20):
                await test(**fixtures)

        asyncio.run(bounded())

    return run


@asynccontextmanager
async def channels(broker: Broker, **options: Any) -> AsyncIterator[tuple[AbstractChannel, AbstractChannel]]:
    """Open two channels, each on a connection of its own."""
    async with (
        await aio_pika.connect(broker.url, timeout=60) as one,
        await aio_pika.connect(broker.url, timeout=60) as other,
        one.channel(**options) as first,
        other.channel(**options) as second,
    ):
        yield first, second


@asynccontextmanager
async def parties(broker: Broker, kind: type[RPC] = RPC) -> AsyncIterator[tuple[RPC, RPC]]:
    """Make a server and a client."""
    async with channels(broker) as (serving, calling):
        server, client = await kind.create(serving), await kind.create(calling)
        yield server, client
        await client.close()
        await server.close()


async def is_missing(broker: Broker, declare: str, name: str) -> bool:
    try:
        async with await aio_pika.connect(broker.url, timeout=60) as connection, connection.channel() as channel:
            await getattr(channel, declare)(name, passive=True)
    except ChannelNotFoundEntity:
        return True
    return False


# RPC


@pytest.mark.parametrize("kind", [RPC, JsonRPC])
@in_loop
async def test_call_returns_the_result(broker: Broker, unique: Unique, kind: type[RPC]) -> None:
    async def multiply(*, x: int, y: int) -> int:
        return x * y

    async with parties(broker, kind) as (server, client):
        name = unique()
        await server.register(name, multiply, auto_delete=True)
        assert await client.call(name, {"x": 6, "y": 7}) == 42
        assert await getattr(client.proxy, name)(x=2, y=3) == 6


@in_loop
async def test_answers_may_come_in_another_order(broker: Broker, unique: Unique) -> None:
    """Each waits for the one that was called after it."""
    passed = [asyncio.Event() for _ in range(51)]
    passed[50].set()

    async def wait_for_next(*, n: int) -> int:
        await passed[n + 1].wait()
        passed[n].set()
        return n

    async with parties(broker) as (server, client):
        name = unique()
        await server.register(name, wait_for_next, auto_delete=True)
        assert await asyncio.gather(*(client.call(name, {"n": n}) for n in range(50))) == list(range(50))


@in_loop
async def test_exception_reaches_the_caller(broker: Broker, unique: Unique) -> None:
    async def fail() -> None:
        raise LookupError("nothing there")

    async with parties(broker) as (server, client):
        name = unique()
        await server.register(name, fail, auto_delete=True)
        with pytest.raises(LookupError, match="nothing there"):
            await client.call(name)


@in_loop
async def test_call_of_an_unknown_method_is_returned(broker: Broker, unique: Unique) -> None:
    async with parties(broker) as (_, client):
        with pytest.raises(MessageProcessError, match="Message has been returned"):
            await client.call(unique())


@in_loop
async def test_call_that_waits_too_long_comes_back(broker: Broker, unique: Unique) -> None:
    """It expires in the method's queue, and its dead letter finds the caller's queue by a header of the call."""
    busy, release = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        busy.set()
        await release.wait()
        return "done"

    async with parties(broker) as (server, client):
        name = unique()
        await server.channel.set_qos(prefetch_count=1)
        await server.register(name, work, auto_delete=True)
        first = asyncio.ensure_future(client.call(name))
        await busy.wait()
        with pytest.raises(TimeoutError, match="Message timed-out"):
            await client.call(name, expiration=0.2)  # type: ignore[arg-type] # seconds; a part of one is taken too
        release.set()
        assert await first == "done"


@in_loop
async def test_methods_have_an_exchange_of_their_own(broker: Broker, unique: Unique) -> None:
    async def greet(*, name: str) -> str:
        return f"hello {name}"

    exchange = unique()
    async with channels(broker) as (serving, calling):
        server, client = [await RPC.create(channel, exchange=exchange) for channel in (serving, calling)]
        await server.register("greet", greet, auto_delete=True)
        assert await client.call("greet", {"name": "Ana"}) == "hello Ana"
        await server.unregister(greet)
        assert await is_missing(broker, "declare_queue", f"{exchange}::greet")
        await client.close()
        await server.close()
        assert await is_missing(broker, "declare_exchange", exchange)
        assert await is_missing(broker, "declare_exchange", RPC.DLX_NAME)


# Master and workers


@pytest.mark.parametrize("kind", [Master, JsonMaster])
@in_loop
async def test_workers_share_the_tasks(broker: Broker, unique: Unique, kind: type[Master]) -> None:
    name, done, both = unique(), dict[int, str](), asyncio.Barrier(2)

    async def work(worker: str, *, task: int) -> None:
        async with asyncio.timeout(60):
            await both.wait()  # at each time one of each worker
        done[task] = worker

    async with channels(broker) as (first, second):
        for channel, worker in ((first, "first"), (second, "second")):
            await channel.set_qos(prefetch_count=1)
            await kind(channel).create_worker(name, functools.partial(work, worker), auto_delete=True)
        for task in range(10):
            await kind(first).create_task(name, {"task": task})
        while len(done) < 10:
            await asyncio.sleep(0.005)
    assert sorted(done) == list(range(10))
    assert sorted(done.values()) == ["first"] * 5 + ["second"] * 5


@pytest.mark.parametrize(
    ("failure", "tries"),
    [
        (RejectMessage(requeue=False), 1),
        (NackMessage(requeue=False), 1),
        (RejectMessage(requeue=True), 3),
        (NackMessage(requeue=True), 3),
    ],
    ids=repr,
)
@in_loop
async def test_failed_task_is_done_again_if_wanted(broker: Broker, unique: Unique, failure: Exception, tries: int) -> None:
    name, seen, after = unique(), list[str](), asyncio.Event()

    async def work(*, task: str) -> None:
        seen.append(task)
        if task == "last":
            after.set()
        elif len(seen) < 3:
            raise failure

    async with channels(broker) as (working, asking):
        await working.set_qos(prefetch_count=1)
        await Master(working).create_worker(name, work)
        await Master(asking).create_task(name, {"task": "hard"})
        while len(seen) < tries:
            await asyncio.sleep(0.005)
        await Master(asking).create_task(name, {"task": "last"})
        await after.wait()
    assert seen == ["hard"] * tries + ["last"]


@in_loop
async def test_task_of_a_lost_worker_is_done_by_another(broker: Broker, unique: Unique) -> None:
    name, started, done = unique(), asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    async def work() -> None:
        done.set()

    async with channels(broker) as (lost, heir):
        await Master(lost).create_worker(name, hang)
        await Master(heir).create_task(name, {})
        await started.wait()
        await Master(heir).create_worker(name, work)
        assert not done.is_set()
        await lost.close()
        await done.wait()
