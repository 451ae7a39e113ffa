"""Pages that stay octets: what a consumer without acknowledgement gets of them is what it would get otherwise."""

from collections.abc import Callable

import pytest
from tests.store.support import Rig, body, letter, opened_entries, read_octets

from leveret.broker.consumer import Consumer, Window
from leveret.broker.dispatch import dispatch, resume, subscribe
from leveret.broker.message import Entry
from leveret.broker.open_page import OpenPage
from leveret.broker.pages import Sizes
from leveret.broker.queue import Queue
from leveret.management.statistics.queue_stats import backing_queue_status, head_timestamp
from leveret.store.ledger import ledger_of

SIZES = Sizes(8, 1 << 20, 4, 1 << 20)
COUNT = 60
# Up to so much may be read around what is asked for.
SPARSE_FROM = 128 << 10


class Drinker(Consumer):
    """A consumer that takes octets, as many as it is told it may; `got` is what it got, `octets` how many of them so."""

    def __init__(self, may: int = 1 << 30, name: str = "drinker") -> None:
        Consumer.__init__(self, name, True)
        self.may = may
        self.got: list[tuple[int, bytes]] = []
        self.octets = 0
        self.calls: list[int] = []

    def can_take(self, size: int) -> bool:
        return self.may > 0

    def takes_octets(self) -> bool:
        return True

    def deliver(self, entry: Entry) -> None:
        self.may -= 1
        self.got.append((entry.seq, body(entry.message)))

    def deliver_octets(self, page: OpenPage, limit: int) -> None:
        last = min(page.count, page.at + min(limit, self.may))
        self.calls.append(last - page.at)
        while page.at < last:
            self.deliver(read_octets(page, page.at))
            self.octets += 1
            page.at += 1

    def cancelled(self) -> None:
        """Nobody asks."""


class Acker(Consumer):
    """A consumer that acknowledges."""

    def __init__(self) -> None:
        Consumer.__init__(self, "acker", False, False, Window(3))
        self.got: list[int] = []

    def deliver(self, entry: Entry) -> None:
        self.got.append(entry.seq)


def deep(rig: Rig, persistent: Callable[[int], bool], name: str = "q", count: int = COUNT) -> Queue:
    queue = rig.queue(name)
    for number in range(1, count + 1):
        rig.publish(letter(b"%06d" % number, name, delivery_mode=2 if persistent(number) else 1))
    rig.settle_down()
    assert queue.backlog.pages.count > count // 2
    return queue


def expected(first: int = 1, last: int = COUNT) -> list[tuple[int, bytes]]:
    return [(number, b"%06d" % number) for number in range(first, last + 1)]


WHICH: dict[str, Callable[[int], bool]] = {
    "transient": lambda number: False,
    "persistent": lambda number: True,
    "both": lambda number: number % 3 == 0,
}


@pytest.mark.parametrize("which", WHICH)
def test_a_deep_queue_is_read_as_octets_in_order_and_each_once(which: str) -> None:
    """SPEC §8.5: and storage has nothing of it afterwards."""
    rig = Rig(sizes=SIZES)
    queue = deep(rig, WHICH[which])
    drinker = Drinker()
    subscribe(queue, drinker)
    rig.settle_down()
    assert drinker.got == expected()
    # What is in two logs is not in one piece.
    assert (drinker.octets > COUNT // 2) == (which != "both")
    assert (queue.ready_count, queue.ready_bytes, queue.counters.deliver_no_ack) == (0, 0, COUNT)
    assert (ledger_of(queue).live_count, ledger_of(queue).live_bytes) == (0, 0)
    rig.check([])
    assert rig.again().bodies("q") == []


@pytest.mark.parametrize("which", ["persistent", "both"])
def test_what_was_not_taken_is_there_after_a_restart(which: str) -> None:
    rig = Rig(sizes=SIZES)
    queue = deep(rig, WHICH[which])
    drinker = Drinker(may=31)
    subscribe(queue, drinker)
    rig.settle_down()
    assert drinker.got == expected(last=31)
    assert (opened_entries(queue) != []) == (which != "both")
    rig.check([])
    left = [number for number in range(32, COUNT + 1) if WHICH[which](number)]
    assert [int(text) for text in rig.again().bodies("q")] == left


def test_one_that_is_full_goes_on_where_it_stopped_and_others_come_behind() -> None:
    rig = Rig(sizes=SIZES)
    queue = deep(rig, WHICH["persistent"])
    drinker = Drinker(may=0)
    subscribe(queue, drinker)
    for _ in range(2 * COUNT):
        drinker.may = 1
        resume(queue, drinker)
        rig.settle_down()
        if len(drinker.got) == 40:
            for number in range(COUNT + 1, COUNT + 21):
                rig.publish(letter(b"%06d" % number))
    assert drinker.got == expected(last=COUNT + 20)
    rig.check([])


def test_several_take_turns_one_message_each() -> None:
    """Whether octets or entries."""
    rig = Rig(sizes=SIZES)
    queue = deep(rig, WHICH["persistent"])
    one, other = Drinker(name="one"), Drinker(name="other")
    rig.broker.work.budget.left = 0
    subscribe(queue, one)
    subscribe(queue, other)
    rig.settle_down()
    assert [seq % 2 for seq, _ in one.got] == [1] * (COUNT // 2)
    assert sorted(one.got + other.got) == expected()
    assert set(one.calls) == set(other.calls) == {1}


def test_a_spent_budget_is_a_rest_and_no_more() -> None:
    """No pass gives more than its budget."""
    rig = Rig(sizes=SIZES, held=True)
    queue = deep(rig, WHICH["transient"])
    drinker = Drinker()
    rig.broker.work.budget.left = 0
    subscribe(queue, drinker)
    longest = 0
    while queue.ready_count:
        before = len(drinker.got)
        rig.broker.work.budget.left = 3
        rig.broker.work.drain()
        longest = max(longest, len(drinker.got) - before)
        rig.flush()
        rig.committer.run()
    assert drinker.got == expected()
    assert longest == 3


def test_who_acknowledges_gets_entries_of_what_is_left() -> None:
    rig = Rig(sizes=SIZES)
    queue = deep(rig, WHICH["persistent"])
    drinker = Drinker(may=25)
    subscribe(queue, drinker)
    rig.settle_down()
    assert queue.backlog.opened
    acker = Acker()
    subscribe(queue, acker)
    assert acker.got == [26, 27, 28]
    assert not queue.backlog.opened
    rig.settle_down()
    assert queue.ready_count == COUNT - 28
    rig.check()


@pytest.mark.parametrize("what", ["get", "purge", "delete", "relieve", "policy"])
def test_whatever_comes_in_between(what: str) -> None:
    rig = Rig(sizes=SIZES)
    queue = deep(rig, WHICH["persistent"])
    drinker = Drinker(may=25)
    subscribe(queue, drinker)
    rig.settle_down()
    assert queue.backlog.opened
    if what == "get":
        entry = queue.take(True)
        assert entry is not None
        assert entry.seq == 26
    elif what == "purge":
        assert queue.purge() == COUNT - 25
    elif what == "delete":
        rig.vhost.remove_queue(queue)
    elif what == "relieve":
        rig.store.page_out_all(queue)
    else:
        rig.vhost.policies.set("all", ".*", {"max-length": 5})
        rig.drain()
    rig.settle_down()
    drinker.may = 1 << 30
    if what != "delete":
        resume(queue, drinker)
        dispatch(queue)
    rig.settle_down()
    after = {"get": 27, "purge": COUNT + 1, "delete": COUNT + 1, "relieve": 26, "policy": COUNT - 4}[what]
    assert drinker.got == expected(last=25) + expected(after)
    rig.check([])


@pytest.mark.parametrize("what", ["expiration", "given back"])
def test_what_has_a_time_or_a_history_is_made_an_entry(what: str) -> None:
    """It expires in time, and is marked as redelivered."""
    rig = Rig(sizes=SIZES)
    queue = rig.queue("q")
    for number in range(1, COUNT + 1):
        said = {"expiration": "5000"} if what == "expiration" and number % 4 == 0 else {}
        rig.publish(letter(b"%06d" % number, **said))
    rig.settle_down()
    if what == "given back":
        taken = [rig.take("q") for _ in range(4)]
        queue.requeue(taken)
        rig.store.page_out_all(queue)
        rig.settle_down()
    else:
        rig.later(rig.now + 6000)
        rig.settle_down()
    drinker = Drinker()
    subscribe(queue, drinker)
    rig.settle_down()
    left = [one for one in expected() if what == "given back" or one[0] % 4]
    assert drinker.got == left
    assert queue.counters.redeliver == (4 if what == "given back" else 0)
    rig.check([])


def test_a_page_knows_its_messages() -> None:
    """A page with several origins, whose addresses stand before the contents."""
    rig = Rig(sizes=SIZES)
    queue = rig.queue("q")
    rig.vhost.bind("amq.topic", queue, "#", {})
    keys = ["a", "a", "bb", "a", "bc", ""] * 10
    for number, key in enumerate(keys):
        rig.publish(letter(b"%d" % number, key, "amq.topic"))
    rig.settle_down()
    drinker = Drinker(may=20)
    subscribe(queue, drinker)
    rig.settle_down()
    left = opened_entries(queue)
    assert len(left) > 0
    assert [entry.message.origin.routing_key for entry in left] == keys[20 : 20 + len(left)]
    assert [entry.message.origin.exchange for entry in left] == ["amq.topic"] * len(left)
    queue.backlog.unfold()
    assert [entry.message.origin.routing_key for entry in queue.backlog.front.entries()][: len(left)] == keys[
        20 : 20 + len(left)
    ]


@pytest.mark.parametrize("size", [4_000, 200_000])
def test_pages_of_which_most_is_another_queues_do_not_stay_octets(size: int) -> None:
    """What is read around them would stay in memory as long as they do, and nobody would count it."""
    rig = Rig(sizes=Sizes(64, 16 << 20, 32, 2 << 20), segment_size=64 << 20)
    queue = rig.queue("q")
    rig.queue("between")
    for number in range(1, 201):
        rig.publish(letter(b"%06d" % number))
        rig.publish(letter(bytes(min(size, 15_000)), "between"))
    rig.settle_down()
    drinker = Drinker(may=70)
    subscribe(queue, drinker)
    rig.settle_down()
    kept = sum(len(page.data) for page in queue.backlog.opened)
    assert kept <= SPARSE_FROM * len(queue.backlog.opened)
    drinker.may = 1000
    resume(queue, drinker)
    rig.settle_down()
    assert drinker.got == expected(last=200)


def test_first_of_an_open_page_can_be_looked_at() -> None:
    rig = Rig(sizes=SIZES)
    queue = rig.queue("q")
    for number in range(COUNT):
        rig.publish(letter(b"%06d" % number, timestamp=1_700_000_000 + number))
    rig.settle_down()
    subscribe(queue, Drinker(may=20))
    rig.settle_down()
    opened = len(queue.backlog.opened)
    assert opened > 0
    assert head_timestamp(queue) == 1_700_000_020
    assert backing_queue_status(queue, None)["next_deliver_seq_id"] == 20
    assert len(queue.backlog.opened) == opened
