"""Links over real sockets: found, kept to one for each pair, and begun anew."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from leveret.cluster.link import BEAT, VERSION, Hello, Refusal
from leveret.cluster.peer import Peers

PATIENCE_S = 120.0
LOOK_S = 0.01


class One:
    """A node of which there are only its links."""

    def __init__(self, name: str, secret: bytes = b"hush") -> None:
        self.name = name
        self.port = 0
        self.heard: list[tuple[str, int, bytes]] = []
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.refusals: list[Refusal] = []
        self.peers = Peers(
            asyncio.get_running_loop(),
            self.hello,
            secret,
            lambda hello: None,
            lambda hello: self.opened.append(hello.node),
            self.closed.append,
            lambda node, kind, octets: self.heard.append((node, kind, octets)),
            self.refusals.append,
        )

    def hello(self, nonce: str) -> Hello:
        return Hello(VERSION, "tests", self.name, f"id of {self.name}", 1, "127.0.0.1", self.port, 1, 0, nonce)

    async def listen(self) -> "One":
        self.port = await self.peers.listen("127.0.0.1", 0)
        return self

    def start(self, *others: "One") -> None:
        self.peers.start([("127.0.0.1", other.port) for other in others])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(LOOK_S)


def run(test: Callable[[One, One], Any], secret: bytes = b"hush") -> None:
    async def main() -> None:
        first, second = await One("n1").listen(), await One("n2", secret).listen()
        try:
            await test(first, second)
        finally:
            await first.peers.stop()
            await second.peers.stop()

    asyncio.run(main())


def linked(first: One, second: One) -> bool:
    return all(list(one.peers.links) and len(one.peers.everyone) == 1 for one in (first, second))


def test_two_that_dial_each_other_have_one_connection() -> None:
    async def test(first: One, second: One) -> None:
        first.start(second)
        second.start(first)
        await until(lambda: linked(first, second))
        first.peers.say(BEAT, b"to all")
        second.peers.say(BEAT, b"to one", "n1")
        second.peers.say(BEAT, b"to nobody", "n3")
        await until(lambda: bool(first.heard and second.heard))
        assert second.heard == [("n1", BEAT, b"to all")]
        assert first.heard == [("n2", BEAT, b"to one")]

    run(test)


def test_link_that_breaks_a_rule_is_begun_anew_and_gives_nothing_on() -> None:
    async def test(first: One, second: One) -> None:
        first.start(second)
        await until(lambda: linked(first, second))
        transport = first.peers.links["n2"].transport
        assert transport is not None
        transport.write(b"\0\0\0\x10" + b"damaged " * 3)
        await until(lambda: second.closed == ["n1"])
        await until(lambda: linked(first, second))
        assert second.heard == []
        assert second.opened == ["n1", "n1"]

    run(test)


def test_node_that_comes_back_is_linked_again() -> None:
    async def test(first: One, second: One) -> None:
        first.start(second)
        await until(lambda: linked(first, second))
        first.peers.links["n2"].abort()
        await until(lambda: len(first.opened) == 2 and linked(first, second))

    run(test)


def test_stranger_is_refused_and_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test(first: One, second: One) -> None:
        second.start(first)
        await until(lambda: len(second.refusals) >= 2)
        assert {refusal.rule for refusal in second.refusals} == {"secret"}
        assert first.opened == second.opened == []

    run(test, b"another")
    assert caplog.text.count("no link with node 'n2'") == 1
