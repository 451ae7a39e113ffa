"""Transactions: publishes and acknowledgements of a channel take effect together, at tx.commit, or not at all.

Here an order moves from one queue to another: taking it off the first and putting it on the second is one step.
"""

import sys
from typing import Any

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"


def show(connection: Any, title: str) -> None:
    """Count as an onlooker sees it, on a channel of its own."""
    with connection.channel() as onlooker:
        orders, bills = (onlooker.queue_declare(queue, passive=True).method.message_count for queue in (ORDERS, BILLS))
        print(f"{title}: {orders} orders waiting, {bills} bills waiting")


with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.confirm_delivery()  # basic_publish returns when the message is in its queue, for others to see
    ORDERS, BILLS = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    for number in (1, 2):
        channel.basic_publish("", ORDERS, f"order {number}")
    show(connection, "at first")

    clerk = connection.channel()
    clerk.tx_select()

    delivery, _, order = clerk.basic_get(ORDERS)
    clerk.basic_publish("", BILLS, b"bill for " + order)
    clerk.basic_ack(delivery.delivery_tag)
    show(connection, "before the commit")
    clerk.tx_commit()
    show(connection, "after the commit")

    delivery, _, order = clerk.basic_get(ORDERS)
    clerk.basic_publish("", BILLS, b"bill for " + order)
    clerk.tx_rollback()
    clerk.basic_reject(delivery.delivery_tag, requeue=True)
    clerk.tx_commit()
    show(connection, "after a rollback")
    print("the bill reads:", clerk.basic_get(BILLS)[2].decode())
