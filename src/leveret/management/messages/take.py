"""Taking messages out of a queue for a request, some at a time, and settling them."""

import asyncio
from collections.abc import Callable

from leveret.broker.message import Entry
from leveret.broker.queue import Queue
from leveret.protocol.settlement import settlement
from leveret.server.node import Node

# As many as are taken in one go, while others wait.
PIECE = 100


async def take_all(node: Node, queue: Queue, take_some: Callable[[], bool]) -> None:
    """Call `take_some`, within changes of the model, until it says that it has enough or the queue has nothing more.

    It is called again when what is paged out is in memory, or on disk what may not leave before it is.
    """
    synced = False
    while True:
        before = queue.ready_count
        if node.do(take_some):
            return
        if queue.backlog.loading is not None:
            await node.until(lambda: queue.backlog.loading is None)
        elif queue.ready_count == 0:
            return
        elif queue.ready_count < before:
            synced = False
            await asyncio.sleep(0)
        elif synced:
            return
        else:
            synced = True
            await node.change(lambda: None)


async def settle_all(node: Node, entries: list[Entry], how: int) -> None:
    """Settle what was taken (`protocol/settlement.py`), and return when that is on disk."""
    settled: list[bool] = []
    if entries:
        node.do(lambda: node.broker.work.add(settlement(how, entries, lambda: settled.append(True))))
        await node.until(lambda: bool(settled))
    await node.change(lambda: None)
