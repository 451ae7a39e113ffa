"""Closing listeners so that nobody is lost who comes just then.

The loop accepts in one turn, makes a transport in the next, and tells the protocol in the third. asyncio's own loop, at
least until Python 3.12, forgets a client whose listener is closed in between: its socket stays open, and nobody has it.
"""

import asyncio
from collections.abc import Iterable

# Two more than it takes.
TURNS = 5


async def close_listeners(servers: Iterable[asyncio.Server]) -> None:
    """Accept nobody any more; return when whoever was accepted is known to its protocol, to be closed too."""
    loop = asyncio.get_running_loop()
    for server in servers:
        for listener in server.sockets:
            # uvloop has no reader there, and does not need this.
            loop.remove_reader(listener.fileno())
    await turns()
    for server in servers:
        server.close()
    await turns()


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)
