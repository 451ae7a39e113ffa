"""Pages that stay octets: what a consumer gets of them is what it would get otherwise."""

from collections.abc import Callable

import pytest
from tests.store.support import Rig, body, letter, opened_entries, read_octets

from leveret.broker.consumer import Consumer, Window
from leveret.broker.dispatch import dispatch, resume, subscribe
from leveret.broker.message import Entry, is_stub
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
    """A consumer that takes octets, as many as it is told it may; `got` is what it got, `octets` how many of them so.

    If it acknowledges, `unacked` is what it has not yet acknowledged.
    """

    def __init__(self, may: int = 1 << 30, name: str = "drinker", window: Window | None = None) -> None:
        Consumer.__init__(self, name, window is None, window=window)
        self.may = may
        self.got: list[tuple[int, bytes]] = []
        self.octets = 0
        self.calls: list[int] = []
        self.unacked: list[Entry] = []

    def can_take(self, size: int) -> bool:
        return self.may > 0 and Consumer.can_take(self, size)

    def takes_octets(self) -> bool:
        return True

    def deliver(self, entry: Entry) -> None:
        self._get(entry)
        if not self.no_ack:
            self.unacked.append(entry)

    def _get(self, entry: Entry) -> None:
        self.may -= 1
        self.got.append((entry.seq, body(entry.message)))

    def run_end(self, page: OpenPage, limit: int) -> int:
        return min(page.count, page.at + min(limit, self.may))

    def deliver_octets(self, page: OpenPage, first: int, end: int, entries: list[Entry]) -> None:
        assert [entry.seq for entry in entries] == ([] if self.no_ack else [page.seq(index) for index in range(first, end)])
        self.calls.append(end - first)
        self.unacked += entries
        for index in range(first, end):
            self._get(read_octets(page, index))
            self.octets += 1

    def settle(self, count: int) -> None:
        """Acknowledge the oldest."""
        for entry in self.unacked[:count]:
            self.queue.settle(entry)
        del self.unacked[:count]
        resume(self.queue, self)

    def cancelled(self) -> None:
        """Nobody asks."""


class Acker(Consumer):
    """A consumer that acknowledges, and takes no octets."""

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


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("window", [(1, 0), (7, 0), (0, 0), (0, 6), (0, 20), (5, 25)], ids=str)
def test_who_acknowledges_gets_no_more_than_its_window(which: str, window: tuple[int, int]) -> None:
    """SPEC §8.5: and each message is in storage until it is acknowledged."""
    rig = Rig(sizes=SIZES)
    queue = deep(rig, WHICH[which])
    count_limit, size_limit = window
    most = min(count_limit or COUNT, size_limit // 6 or COUNT)
    shared = Window(count_limit, size_limit)
    drinker = Drinker(window=Window())
    drinker.channel_window = shared
    subscribe(queue, drinker)
    while len(drinker.unacked) > 0 or not drinker.got:
        rig.settle_down()
        assert len(drinker.unacked) == min(most, queue.unacked_count + queue.ready_count) == queue.unacked_count
        assert (
            (shared.count, shared.size)
            == (queue.unacked_count, 6 * queue.unacked_count)
            == (
                drinker.window.count,
                drinker.window.size,
            )
        )
        assert queue.unacked_bytes == shared.size
        rig.check(drinker.unacked)
        drinker.settle(3)
    assert drinker.got == expected()
    assert (drinker.octets > COUNT // 2) == (which != "both")
    assert (queue.ready_count, queue.counters.deliver, queue.counters.ack) == (0, COUNT, COUNT)
    rig.settle_down()
    rig.check([])
    assert rig.again().bodies("q") == []


@pytest.mark.parametrize("which", ["transient", "persistent"])
def test_what_was_handed_over_as_octets_can_be_given_back(which: str) -> None:
    """It is read again, in order, before all that follows, and marked as delivered before."""
    rig = Rig(sizes=SIZES)
    queue = deep(rig, WHICH[which])
    drinker = Drinker(window=Window(40))
    subscribe(queue, drinker)
    rig.settle_down()
    assert [entry.seq for entry in drinker.unacked if is_stub(entry.message)][-1:] == [40]
    given, drinker.unacked = drinker.unacked[15:], drinker.unacked[:15]
    drinker.got.clear()
    queue.requeue(given)
    rig.settle_down()
    rig.check(drinker.unacked)
    assert (queue.ready_count, queue.unacked_count, queue.counters.redeliver) == (COUNT - 15, 15, 0)
    drinker.window.count_limit = 0
    resume(queue, drinker)
    rig.settle_down()
    assert drinker.got == expected(16)
    assert [entry.seq for entry in drinker.unacked if entry.redelivered] == list(range(16, 41))
    drinker.settle(COUNT)
    rig.settle_down()
    assert ledger_of(queue).counts == {}
    rig.check([])


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_handed_over_as_octets_is_there_after_a_restart(clean: bool) -> None:
    """As delivered before, after an unclean end with all the others."""
    rig = Rig(sizes=SIZES)
    queue = deep(rig, WHICH["persistent"])
    drinker = Drinker(window=Window(40))
    subscribe(queue, drinker)
    rig.settle_down()
    drinker.settle(11)
    rig.settle_down()
    if clean:
        queue.requeue(drinker.unacked)
        again = rig.restarted()
    else:
        again = rig.again()
    left = again.ready(again.vhost.queues["q"])
    assert [(entry.seq, body(entry.message)) for entry in left] == expected(12)
    last = 51 if clean else COUNT
    assert [entry.seq for entry in left if entry.redelivered] == list(range(12, last + 1))


@pytest.mark.parametrize("which", ["transient", "persistent"])
@pytest.mark.parametrize("what", ["purge", "delete", "reject"])
def test_what_becomes_of_what_was_handed_over_as_octets(which: str, what: str) -> None:
    rig = Rig(sizes=SIZES)
    rig.queue("dead")
    queue = rig.queue("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    for number in range(1, COUNT + 1):
        rig.publish(letter(b"%06d" % number, delivery_mode=2 if WHICH[which](number) else 1))
    rig.settle_down()
    drinker = Drinker(window=Window(40))
    subscribe(queue, drinker)
    rig.settle_down()
    assert drinker.octets > 0
    if what == "purge":
        assert queue.purge() == COUNT - 40
        queue.requeue(drinker.unacked)
    elif what == "delete":
        rig.vhost.remove_queue(queue)
        queue.requeue(drinker.unacked)
    else:
        for entry in drinker.unacked:
            queue.reject(entry)
        rig.settle_down()
        assert rig.bodies("dead") == [text for _, text in expected(last=40)]
    rig.settle_down()
    assert queue.ready_count == {"purge": 40, "delete": 0, "reject": COUNT - 40}[what]
    rig.check([])


def test_those_who_acknowledge_and_those_who_do_not_take_turns() -> None:
    rig = Rig(sizes=SIZES)
    queue = deep(rig, WHICH["transient"])
    one, other = Drinker(name="one", window=Window()), Drinker(name="other")
    rig.broker.work.budget.left = 0
    subscribe(queue, one)
    subscribe(queue, other)
    rig.settle_down()
    assert [seq % 2 for seq, _ in one.got] == [1] * (COUNT // 2)
    assert sorted(one.got + other.got) == expected()
    assert one.octets > 0
    assert other.octets > 0
    assert len(one.unacked) == queue.unacked_count == COUNT // 2
    rig.check(one.unacked)


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


def test_who_wants_entries_gets_them_of_what_is_left() -> None:
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
@pytest.mark.parametrize("which", ["persistent", "transient"])
def test_whatever_comes_in_between(what: str, which: str) -> None:
    rig = Rig(sizes=SIZES)
    queue = deep(rig, WHICH[which])
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
