"""Two nodes that take one log over from each other, again and again, while each publishes and consumes as fast as it can.

Three nats-servers keep the log; each node asks another one. At the end, by what the last of them finds:

(1) Everything confirmed is there, unless it was settled: nothing is lost.
(2) Nothing is there whose settlement was synced, and nothing twice.
(3) The messages of each node stand in the order in which it published them.
(4) A leader that was deposed has confirmed nothing of what it had in its hands: what is there of that was stored before.
"""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.leader import PATIENCE_S, Leader, new_log
from tests.cluster.support import new_name
from tests.store.support import body

from leveret.cluster.engine import Engine
from leveret.cluster.group import State
from leveret.cluster.stream import Deposed

TAKEOVERS = int(os.environ.get("SOAK_TAKEOVERS", "12"))
# So many confirmed before the other one tries.
ENOUGH = 300
PUBLISHED = 20
TAKEN = 16
# More than that is not published before some of it is stored.
UNCONFIRMED_MAX = 400
SIZES = [100, 1000, 5000]


class Rival(threading.Thread):
    """One node. `settled` are bodies whose settlement is synced, `perhaps` those that it has settled, perhaps in vain.

    It leads each time that it has the `turn`, and gives it to the next one. `epochs` are those of all of them: when there
    are enough, it is `over`.
    """

    def __init__(self, leader: Leader, turn: threading.Semaphore, next_turn: threading.Semaphore, epochs: list[int]) -> None:
        super().__init__(daemon=True)
        self.leader = leader
        self.turn = turn
        self.next_turn = next_turn
        self.epochs = epochs
        self.over = threading.Event()
        self.published: list[bytes] = []
        self.settled: set[bytes] = set()
        self.perhaps: set[bytes] = set()
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            while self.turn.acquire() and len(self.epochs) < TAKEOVERS:
                self._lead()
        except BaseException as fault:
            self.fault = fault
        self.next_turn.release()
        self.over.set()

    def _lead(self) -> None:
        leader = self.leader
        leader.ended.clear()
        leader.lead()
        self.epochs.append(leader.group.epoch)
        assert leader.group._takeover is not None
        assert leader.group._takeover.recovery.damage == []
        self._work()

    def _work(self) -> None:
        leader = self.leader
        before = len(leader.confirmed)
        told = False
        settling: list[tuple[int, bytes]] = []
        while leader.group.state is State.LEADING:
            if len(leader._unconfirmed) < UNCONFIRMED_MAX:
                leader.publish(*(self._new_body() for _ in range(PUBLISHED)))
            for _ in range(TAKEN):
                entry = leader.queue.take(False)
                if entry is None:
                    break
                content = body(entry.message)
                leader.queue.settle(entry)
                self.perhaps.add(content)
                settling.append((leader.store.position(), content))
            leader.turn()
            leader.carry_out(wait=len(leader._unconfirmed) >= UNCONFIRMED_MAX)
            while leader.carry_out():
                pass
            store = leader.group.store
            while store is not None and settling and settling[0][0] <= store.synced:
                self.settled.add(settling.pop(0)[1])
            if not told and len(leader.confirmed) >= before + ENOUGH:
                told = True
                self.next_turn.release()
        assert [type(error) for error in leader.ended] == [Deposed]

    def _new_body(self) -> bytes:
        number = len(self.published)
        content = b"%s:%08d:" % (self.leader.group.place.node.encode(), number)
        self.published.append(content + bytes(SIZES[number % len(SIZES)]))
        return self.published[-1]


@pytest.fixture
def leaders(three: list[Engine], tmp_path: Path) -> Iterator[list[Leader]]:
    name = new_name()
    new_log(three[0], name, replicas=3)
    found = [Leader(engine, name, tmp_path, f"n{number}") for number, engine in enumerate(three, 1)]
    yield found
    for leader in found:
        leader.close()


def test_rivals_lose_double_and_disorder_nothing(leaders: list[Leader]) -> None:
    """SPEC §11.2 and §11.3: one leader at a time, and what it has confirmed is there whoever leads next."""
    turns = [threading.Semaphore(1), threading.Semaphore(0)]
    epochs: list[int] = []
    rivals = [Rival(leaders[0], turns[0], turns[1], epochs), Rival(leaders[1], turns[1], turns[0], epochs)]
    for rival in rivals:
        rival.start()
    # One of them is given a turn that it does not take any more. The other one leads on until somebody else does.
    assert rivals[TAKEOVERS % 2].over.wait(PATIENCE_S + TAKEOVERS)
    final = leaders[2].lead()
    for rival in rivals:
        rival.turn.release()
        rival.join(PATIENCE_S)
        assert rival.fault is None, repr(rival.fault)
    assert epochs == list(range(1, TAKEOVERS + 1))
    check(rivals, final.bodies())


def check(rivals: list[Rival], found: list[bytes]) -> None:
    settled = set().union(*(rival.settled for rival in rivals))
    perhaps = set().union(*(rival.perhaps for rival in rivals))
    there = set(found)
    twice = [content[:12] for content, count in Counter(found).items() if count > 1]
    assert twice == []
    assert [content[:12] for content in found if content in settled] == []
    for rival in rivals:
        lost = [content[:12] for content in rival.leader.confirmed if content not in there and content not in perhaps]
        assert lost == []
        mine = [content for content in found if content.startswith(rival.leader.group.place.node.encode())]
        assert mine == sorted(mine)
        assert set(mine) <= set(rival.published)
    assert there <= set().union(*(rival.published for rival in rivals))
    assert sum(len(rival.leader.confirmed) for rival in rivals) >= ENOUGH * TAKEOVERS
    assert len(settled) > ENOUGH
