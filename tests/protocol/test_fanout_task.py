"""One message for very many queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.broker.message import Origin, new_message
from leveret.broker.queue import Queue
from leveret.broker.work import Work
from leveret.protocol.fanout_task import FanoutTask
from leveret.protocol.settlement import nothing
from leveret.wire.spec import BasicAck, BasicNack, ConfirmSelect, QueueDeclare, QueueDeclareOk
from leveret.wire.values import Table

if TYPE_CHECKING:
    from tests.protocol.conftest import Client

MESSAGE = new_message(Origin("", "q", b""), b"", 14, 0, 1, False)


def test_message_is_given_to_all_in_pieces() -> None:
    work = Work()
    queues = [Queue(f"q{number}", "queue", work, {}) for number in range(5000)]
    spread = FanoutTask(MESSAGE, queues, 0, nothing)
    count = 1
    while not spread.run(work.budget):
        assert work.budget.left <= 0
        work.budget.begin()
        count += 1
    assert count == 3
    assert {queue.ready_count for queue in queues} == {1}


def test_queues_that_went_in_the_meantime_are_left_out() -> None:
    work = Work()
    queues = [Queue(f"q{number}", "queue", work, {}) for number in range(3000)]
    spread = FanoutTask(MESSAGE, queues, 0, nothing)
    assert not spread.run(work.budget)
    queues[2999].delete()
    work.budget.begin()
    assert spread.run(work.budget)
    assert queues[2998].ready_count == 1
    assert queues[2999].ready_count == 0


def test_next_frame_waits_until_all_have_it(client: Client) -> None:
    vhost = client.connection.session.vhost
    for number in range(3000):
        vhost.bind("amq.fanout", vhost.declare_queue(f"q{number}"), "", {})
    client.say(ConfirmSelect())
    client.connection.receive(client.message("", b"x", "amq.fanout") + client.method(QueueDeclare("q2999", passive=True)), 0)
    assert client.connection.busy
    client.finish()
    assert client.heard() == [QueueDeclareOk("q2999", 1, 0), BasicAck(1)]
    assert {queue.ready_count for queue in vhost.queues.values()} == {1}


def test_confirm_waits_until_all_have_it(client: Client) -> None:
    vhost = client.connection.session.vhost
    for number in range(3000):
        vhost.bind("amq.fanout", vhost.declare_queue(f"q{number}"), "", {})
    client.say(ConfirmSelect())
    client.connection.receive(client.message("", b"x", "amq.fanout"), 0)
    assert client.connection.busy
    assert client.heard() == []
    client.finish()
    assert client.heard() == [BasicAck(1)]


def test_message_refused_by_one_of_many_is_refused_once(client: Client) -> None:
    vhost = client.connection.session.vhost
    for number in range(3000):
        full: Table = {"x-max-length": 0, "x-overflow": "reject-publish"} if number in (0, 2500, 2999) else {}
        vhost.bind("amq.fanout", vhost.declare_queue(f"q{number}", arguments=full), "", {})
    client.say(ConfirmSelect())
    client.connection.receive(client.message("", b"x", "amq.fanout"), 0)
    assert client.connection.busy
    assert client.heard() == []
    client.finish()
    assert client.heard() == [BasicNack(1)]
    assert sum(queue.ready_count for queue in vhost.queues.values()) == 2997
