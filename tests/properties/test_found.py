"""What the fuzzer and the tests with sockets have found, each as the shortest dialogue that shows it."""

import gc
import logging
from collections.abc import Iterator

import pytest
from tests.properties.dialogue import HANDSHAKE, Frame, body, header, method, publish
from tests.properties.lab import Client, Lab

from leveret.broker.budget import Budget
from leveret.broker.work import Task
from leveret.wire import spec
from leveret.wire.spec import FRAME_HEARTBEAT, FRAME_METHOD

MANY = 5000


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def client(lab: Lab) -> Client:
    client = lab.client()
    client.feed(HANDSHAKE + method(1, spec.ChannelOpen()).encode())
    return client


def say(client: Client, *frames: Frame) -> None:
    client.feed(b"".join(frame.encode() for frame in frames))


def say_without_a_turn(client: Client, *frames: Frame) -> None:
    """As when the loop has not come round: what is interrupted stays so."""
    client.connection.receive(b"".join(frame.encode() for frame in frames), client.now)


def deliver_many(client: Client) -> None:
    say(client, method(1, spec.QueueDeclare("q")))
    for _ in range(MANY // 1000):
        say(client, *(frame for _ in range(1000) for frame in publish(1, "q", b"x")))
    say(client, method(1, spec.BasicConsume("q", "t")))
    assert client.broker.vhosts["/"].queues["q"].unacked_count == MANY


@pytest.mark.parametrize("size", [1 << 31, 0xC6000000, (1 << 32) - 1])
def test_size_of_two_gib_and_more_is_too_large(lab: Lab, size: int) -> None:
    """Compiled, it was negative, and memory before the buffer was read."""
    for greeting in (HANDSHAKE, HANDSHAKE[:8]):
        seen = lab.run(Frame(FRAME_METHOD, 0, b"x" * 100, size=size).encode(), greeting=greeting)
        assert seen.close is None or seen.close.reply_code == 501


@pytest.mark.parametrize("size", [1 << 31, (1 << 32) - 1])
def test_announced_body_of_two_gib_is_refused_within_one_read(client: Client, size: int) -> None:
    say(client, method(1, spec.BasicPublish("", "q")), header(1, size), body(1, b"x" * 100))
    assert client.seen.closes == [(1, 406)]


@pytest.mark.parametrize("tag", [1 << 31, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("kind", [spec.BasicAck, spec.BasicNack, spec.BasicReject])
def test_any_tag_is_shown_as_it_came(client: Client, kind: type[spec.Method], tag: int) -> None:
    say(client, method(1, kind(tag)))  # type: ignore[call-arg]
    close = client.seen.methods[-1][1]
    assert isinstance(close, spec.ChannelClose)
    assert close.reply_text == f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def test_method_index_of_two_gib_and_more_is_blamed_as_it_came(client: Client) -> None:
    say(client, Frame(FRAME_METHOD, 1, b"\xff\xfe\xfd\xfc"))
    assert client.seen.close is not None
    assert (client.seen.close.class_id, client.seen.close.method_id) == (0xFFFE, 0xFDFC)


def test_name_in_any_octets_is_told_as_text(client: Client) -> None:
    frames = publish(1, "k", b"x", exchange="N")
    frames[0].payload = frames[0].payload.replace(b"\x01N", b"\x02\xff\xfe")
    say(client, *frames)
    close = client.seen.methods[-1][1]
    assert isinstance(close, spec.ChannelClose)
    assert close.reply_text == "NOT_FOUND - no exchange '??' in vhost '/'"


def test_connection_is_closed_once(client: Client) -> None:
    say(client, Frame(FRAME_METHOD, 1, b"\0\0\0\0"))
    assert client.seen.close is not None
    say(client, Frame(FRAME_METHOD, 1, b"x", end=0))
    client.wait()
    assert [one.NAME for _, one in client.seen.methods if "close" in one.NAME] == ["connection.close"]


def test_odd_frame_on_a_closed_channel_is_still_odd(client: Client) -> None:
    """RabbitMQ looks at the kind of a frame before it looks at its channel."""
    say(client, method(1, spec.BasicGet("none")), Frame(FRAME_HEARTBEAT, 1, b""))
    assert client.seen.closes == [(1, 404)]
    assert client.seen.close is not None
    assert client.seen.close.reply_code == 505


def test_broken_frame_with_much_to_give_back_comes_to_an_end(lab: Lab, client: Client) -> None:
    """The requeueing was never finished, and the loop span for it."""
    deliver_many(client)
    say(client, Frame(FRAME_METHOD, 1, b"x", end=0))
    queue = lab.broker.vhosts["/"].queues["q"]
    assert (queue.ready_count, queue.unacked_count) == (MANY, 0)
    assert not client.connection.busy


@pytest.mark.parametrize("closing", [spec.ChannelClose(), spec.BasicRecover(requeue=True), spec.BasicAck(0, multiple=True)])
def test_connection_lost_in_the_midst_of_it_leaves_nothing(lab: Lab, client: Client, closing: spec.Method) -> None:
    deliver_many(client)
    say_without_a_turn(client, method(1, closing))
    assert client.connection.busy
    client.connection.lost(client.now)
    lab.drain()
    queue = lab.broker.vhosts["/"].queues["q"]
    assert queue.unacked_count == 0
    assert queue.ready_count == (0 if isinstance(closing, spec.BasicAck) else MANY)


def test_transaction_that_is_too_large_gives_everything_back(
    lab: Lab, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The acknowledgement that was one too many was forgotten, and its message with it."""
    monkeypatch.setattr("leveret.protocol.transaction.BUFFERED_SIZE_MAX", 1000)
    say(client, method(1, spec.QueueDeclare("q")), method(1, spec.TxSelect()), method(1, spec.BasicConsume("q", "t")))
    say(client, method(2, spec.ChannelOpen()), *(frame for _ in range(20) for frame in publish(2, "q", b"x")))
    say(client, *(method(1, spec.BasicAck(tag)) for tag in range(1, 21)))
    assert client.seen.close is not None
    assert client.seen.close.reply_code == 506
    queue = lab.broker.vhosts["/"].queues["q"]
    assert (queue.ready_count, queue.unacked_count) == (20, 0)


def test_incomplete_bodies_over_the_limit_close_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Giving back the first of several bodies left the sum above the limit, which was taken for another fault."""
    monkeypatch.setattr("leveret.protocol.session.INCOMPLETE_SIZE_MAX", 1000)
    say(client, method(1, spec.BasicPublish("", "q")), header(1, 2000), body(1, b"x"))
    say(client, method(2, spec.ChannelOpen()), method(2, spec.BasicPublish("", "q")), header(2, 2000), body(2, b"x" * 500))
    assert client.seen.methods[-1][1] == spec.ChannelOpenOk()
    say(client, body(2, b"x" * 600))
    assert client.seen.close is not None
    assert client.seen.close.reply_code == 506
    assert client.connection.session.incomplete_size == 0


def test_work_that_never_ends_keeps_nothing_of_what_is_done(lab: Lab) -> None:
    """Under a steady load the list is never empty; what was done must go all the same."""

    class Endless(Task):
        def run(self, budget: Budget) -> bool:
            work.budget.left -= 1000
            work.add(Endless())
            return True

    work = lab.broker.work
    work.add(Endless())
    for _ in range(2000):
        work.budget.begin()
        assert not work.drain()
    assert sum(isinstance(one, Endless) for one in gc.get_objects()) < 500


@pytest.mark.parametrize("requeue", [spec.BasicNack(1, requeue=True), spec.BasicReject(1, requeue=True)])
def test_message_that_comes_back_is_not_in_what_the_client_knew(lab: Lab, client: Client, requeue: spec.Method) -> None:
    """SPEC §5: given back, and everything acknowledged, in one write: the message had been delivered again, and was lost."""
    say(client, method(1, spec.QueueDeclare("q")), *publish(1, "q", b"x"), method(1, spec.BasicConsume("q", "t")))
    say(client, method(1, requeue), method(1, spec.BasicAck(0, multiple=True)))
    queue = lab.broker.vhosts["/"].queues["q"]
    assert (queue.ready_count, queue.unacked_count) == (0, 1)
    say(client, method(1, spec.BasicAck(0, multiple=True)))
    assert (queue.ready_count, queue.unacked_count) == (0, 0)
    assert not client.seen.closes


@pytest.mark.parametrize(
    "settlement", [spec.BasicNack(1, requeue=True), spec.BasicReject(1, requeue=True), spec.BasicAck(1), spec.BasicReject(1)]
)
def test_what_a_commit_makes_room_for_comes_after_its_answer(client: Client, settlement: spec.Method) -> None:
    """SPEC §2.4: clients take the next frame for the answer."""
    say(client, method(1, spec.QueueDeclare("q")), *publish(1, "q", b"x"), *publish(1, "q", b"y"))
    say(client, method(1, spec.TxSelect()), method(1, spec.BasicQos(prefetch_count=1)))
    say(client, method(1, spec.BasicConsume("q", "t")), method(1, settlement))
    before = len(client.seen.methods)
    say(client, method(1, spec.TxCommit()))
    assert [type(one) for _, one in client.seen.methods[before:]] == [spec.TxCommitOk, spec.BasicDeliver]
