"""Changing the model, and waiting for it, from outside of any connection."""

import asyncio

import pytest
from tests.server.support import InProcess

from leveret.server.node import Node


def on_loop(running: InProcess, coroutine: object) -> object:
    return asyncio.run_coroutine_threadsafe(coroutine, running._loop).result(10)  # type: ignore[arg-type]


def test_what_is_waited_for_is_looked_at_when_a_turn_ends() -> None:
    """SPEC §9.4: what is paged out, or being dropped, is waited for without asking again and again."""
    ready: list[bool] = []

    async def wait(node: Node) -> str:
        asyncio.get_running_loop().call_later(0.01, node.do, lambda: ready.append(True))
        await node.until(lambda: bool(ready))
        await node.until(lambda: bool(ready))
        return "done"

    with InProcess() as running:
        assert on_loop(running, wait(running.node)) == "done"


def test_condition_that_fails_is_told_to_whoever_waits() -> None:
    """SPEC §9.4: and the turn goes on."""
    asked: list[int] = []

    def condition() -> bool:
        asked.append(1)
        if len(asked) > 1:
            raise KeyError("gone")
        return False

    async def wait(node: Node) -> None:
        asyncio.get_running_loop().call_later(0.01, node.do, lambda: None)
        await node.until(condition)

    with InProcess() as running, pytest.raises(KeyError):
        on_loop(running, wait(running.node))


def test_whoever_waits_hears_that_storage_has_failed() -> None:
    """SPEC §8.7: nobody waits for ever."""

    async def wait(node: Node) -> None:
        asyncio.get_running_loop().call_later(0.01, node._on_storage_failed, OSError("no disk"))
        await node.until(lambda: False)

    with InProcess() as running, pytest.raises(OSError, match="no disk"):
        on_loop(running, wait(running.node))
