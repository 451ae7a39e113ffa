"""Queues in which exchanges keep messages: those that are delayed, and the history of what was published lately.

No client can reach one. It is among none of its vhost's queues, and goes with its exchange.
"""

from typing import TYPE_CHECKING

from leveret.broker.queue import Queue

if TYPE_CHECKING:
    from leveret.broker.vhost import VirtualHost


def make_hidden_queue(vhost: "VirtualHost", name: str, title: str, durable: bool = False) -> Queue:
    """A queue for an exchange of this name; a durable one is stored as any queue is."""
    queue = Queue(name, title, vhost.work, {}, vhost.broker.timers)
    queue.hidden = True
    queue.durable = durable
    vhost.hidden[queue] = None
    if durable:
        vhost.broker.storage.add_queue(queue, vhost.name, "hidden", {})
    return queue


def remove_hidden_queue(vhost: "VirtualHost", queue: Queue) -> None:
    """Remove such a queue with its messages."""
    vhost.hidden.pop(queue, None)
    if queue.durable:
        vhost.broker.storage.remove_queue(queue, vhost.name, "hidden")
    queue.delete()
    queue.dead.clear()
