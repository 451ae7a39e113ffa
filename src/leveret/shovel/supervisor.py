"""The shovels of one broker: each runs in a task of its own for as long as its parameter is there."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.shovel import COMPONENT, check_shovel, shovel_definition
from leveret.errors import PreconditionFailed
from leveret.shovel.shovel import Shovel, ShovelEnvironment

STOP_S = 1.5

Key = tuple[str, str]

log = logging.getLogger("leveret.shovel")


class ShovelSupervisor:
    """All shovels by vhost and name. `change` runs a function that changes the model; not those run that others do."""

    def __init__(
        self,
        broker: Broker,
        environment: ShovelEnvironment,
        change: Callable[[Callable[[], None]], Awaitable[None]],
        runs_here: Callable[[Key], bool] = lambda key: True,
    ) -> None:
        self._broker = broker
        self._environment = environment
        self._change = change
        self._runs_here = runs_here
        self._known: dict[Key, Shovel] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        # Also those that are being stopped.
        self._all: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Run all shovels that are defined, and follow changes of their parameters from now on."""
        self._broker.on_shovel = self.restart
        for vhost in self._broker.vhosts.values():
            for component, name in vhost.parameters.values:
                if component == COMPONENT:
                    self.restart(vhost.name, name)

    async def stop(self) -> None:
        """Stop all shovels, soon."""
        self._broker.on_shovel = None
        for task in self._all:
            task.cancel()
        for timeout_s in (STOP_S, STOP_S / 10):
            if self._all:
                _, slow = await asyncio.wait(self._all, timeout=timeout_s)
                for task in slow:
                    task.cancel()

    def find(self, vhost_name: str, name: str) -> Shovel | None:
        return self._known.get((vhost_name, name))

    def all(self) -> list[Shovel]:
        return list(self._known.values())

    def restart(self, vhost_name: str, name: str) -> None:
        """Stop the shovel of this name, and start it with what its parameter says now."""
        key = (vhost_name, name)
        self._known.pop(key, None)
        before = self._tasks.pop(key, None)
        if before is not None:
            before.cancel()
        value = self._value(key)
        if value is None or not self._runs_here(key):
            return
        try:
            check_shovel(name, value)
        except PreconditionFailed as error:
            # Stored by a version that did not check such parameters.
            log.error("shovel '%s' in vhost '%s' cannot be run: %s", name, vhost_name, error)
            return
        shovel = self._known[key] = Shovel(vhost_name, name, shovel_definition(value), self._environment)
        task = asyncio.get_running_loop().create_task(self._run(key, shovel, value, before))
        self._tasks[key] = task
        self._all.add(task)
        task.add_done_callback(self._all.discard)

    def _value(self, key: Key) -> dict[str, Any] | None:
        vhost = self._broker.vhosts.get(key[0])
        return None if vhost is None else vhost.parameters.values.get((COMPONENT, key[1]))

    async def _run(self, key: Key, shovel: Shovel, value: object, before: "asyncio.Task[None] | None") -> None:
        try:
            if before is not None:
                await asyncio.wait([before])
            if await shovel.run():
                log.info("shovel '%s' in vhost '%s' has moved all its messages", key[1], key[0])
                # First, so that clearing the parameter does not end this task.
                del self._known[key], self._tasks[key]
                await self._change(lambda: self._clear(key, value))
        except Exception:
            log.exception("shovel '%s' in vhost '%s' has ended", key[1], key[0])

    def _clear(self, key: Key, value: object) -> None:
        if self._value(key) is value:
            self._broker.vhosts[key[0]].parameters.clear(COMPONENT, key[1])
