"""A broker in a thread, and both event loops to run a client on."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop
from tests.server.support import InProcess

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(scope="session")
def broker() -> Iterator[InProcess]:
    with InProcess() as running:
        yield running


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine; whatever reaches the loop's handler is a failure."""

    def runner(coroutine: Coroutine[Any, Any, None]) -> None:
        faults: list[Any] = []

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
            await asyncio.wait_for(coroutine, 30)

        request.param(watched())
        assert faults == []

    return runner
