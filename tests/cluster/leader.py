"""A node that has nothing but one group with one queue: what tests say it does, and the loop that its threads call."""

import queue
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.store.support import body, letter

from leveret.broker.broker import Broker
from leveret.broker.message import Entry
from leveret.broker.pages import Sizes
from leveret.broker.queue import Queue
from leveret.broker.settings import Settings
from leveret.cluster.engine import Engine
from leveret.cluster.group import Group, GroupStore, State
from leveret.cluster.stream import LAG_S, Stream
from leveret.cluster.takeover import LogPlace

# Elections and restarts take long on a machine that has other things to do.
PATIENCE_S = 120.0
# For tests in which something is missing for good.
SHORT_LAG_S = 0.5
QUEUE_ID = 7
SEGMENT_SIZE = 1 << 16
NOW = 1_700_000_000_000


def new_log(engine: Engine, name: str, **options: Any) -> None:
    with closing(Stream(engine.address, name)) as stream:
        stream.create(**options)


class Leader:
    """Leads when it is told to. `confirmed` are bodies that a publisher would have been told of."""

    def __init__(self, engine: Engine, name: str, folder: Path, node: str = "n1", lag_s: float = LAG_S) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = queue.SimpleQueue()
        place = LogPlace(engine.address, name, folder / node, node, SEGMENT_SIZE, PATIENCE_S, lag_s)
        self.group = Group(place, lambda function, *arguments: self._calls.put((function, arguments)))
        self.sizes = Sizes()
        self.confirmed: list[bytes] = []
        self.ended: list[BaseException] = []
        self._unconfirmed: list[tuple[int, bytes]] = []
        self.broker: Broker | None = None

    # The loop

    def until(self, condition: Callable[[], bool]) -> None:
        """Carry out what threads bring until this is so."""
        while not condition():
            self.carry_out(wait=True)

    def carry_out(self, wait: bool = False) -> bool:
        """One call, if there is one; whether there was."""
        try:
            function, arguments = self._calls.get(wait, PATIENCE_S)
        except queue.Empty:
            assert not wait, f"nothing happens: {self.group.state}"
            return False
        function(*arguments)
        return True

    # Leading

    def take_over(self) -> None:
        """Begin; `until` it leads, or has ended."""
        self._unconfirmed = []
        self.group.take_over([QUEUE_ID], self._on_taken, self.ended.append)

    def lead(self) -> "Leader":
        self.take_over()
        self.until(lambda: self.group.state is not State.TAKING_OVER)
        assert self.ended == []
        return self

    def _on_taken(self) -> None:
        store = self.group.open(Sizes(self.sizes.window_count, self.sizes.window_bytes, self.sizes.page_count))
        self.broker = Broker(Settings(), store)
        self.broker.work.budget.now = NOW
        self.broker.add_vhost("/")
        store.known_ids["queue", "/", "q"] = QUEUE_ID
        self.broker.vhosts["/"].declare_queue("q", durable=True)
        self.group.lead(self.broker.work, self._on_progress)

    def _on_progress(self) -> None:
        store = self.group.store
        if store is not None:
            while self._unconfirmed and self._unconfirmed[0][0] <= store.synced:
                self.confirmed.append(self._unconfirmed.pop(0)[1])

    @property
    def store(self) -> GroupStore:
        assert self.group.store is not None
        return self.group.store

    @property
    def queue(self) -> Queue:
        assert self.broker is not None
        return self.broker.vhosts["/"].queues["q"]

    # What clients do

    def publish(self, *bodies: bytes, delivery_mode: int = 2) -> None:
        assert self.broker is not None
        vhost = self.broker.vhosts["/"]
        for content in bodies:
            vhost.publish(vhost.exchange(""), letter(content, delivery_mode=delivery_mode), NOW)
            self._unconfirmed.append((self.store.position(), content))

    def turn(self) -> None:
        """The end of one."""
        assert self.broker is not None
        self.broker.work.budget.begin()
        while not self.broker.work.drain():
            self.broker.work.budget.begin()
        self.store.flush()

    def sync(self) -> None:
        """Turns until all that was said is stored, or it has ended."""
        while self.group.state is State.LEADING:
            self.turn()
            if self.store.position() <= self.store.synced:
                return
            self.carry_out(wait=True)

    def take(self, count: int) -> list[Entry]:
        """So many messages, read if they are paged out; fewer if that is all."""
        found: list[Entry] = []
        while len(found) < count:
            entry = self.queue.take(False)
            if entry is not None:
                found.append(entry)
            elif self.queue.ready_count == 0:
                break
            else:
                self.turn()
                self.carry_out(wait=True)
        return found

    def bodies(self) -> list[bytes]:
        """All that is ready, which is given back."""
        entries = self.take(self.queue.ready_count)
        found = [body(entry.message) for entry in entries]
        self.queue.requeue(entries)
        return found

    def step_down(self) -> None:
        done: list[BaseException | None] = []
        self.group.step_down(done.append)
        self.until(lambda: bool(done))
        assert done == [None]

    def close(self) -> None:
        self.group.join()
