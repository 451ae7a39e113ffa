"""Publish and subscribe: a fanout exchange gives each message to every queue that is bound to it.

Each subscriber has a queue of its own, which goes when the subscriber goes. Who publishes does not know who listens, and a
fanout exchange does not look at the routing key.
"""

import sys
from typing import Any

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
EXCHANGE = "example.sport_news"
NEWS = ["Ice hockey: 3:2 after overtime", "Chess: a draw after 94 moves"]
PHONES = ["phone A", "phone B", "phone C"]

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, exchange_type="fanout", auto_delete=True)

    received: dict[str, list[str]] = {phone: [] for phone in PHONES}

    def on_news(_channel: Any, delivery: Any, _properties: Any, body: bytes) -> None:
        received[delivery.consumer_tag].append(body.decode())
        if all(len(news) == len(NEWS) for news in received.values()):
            channel.stop_consuming()

    for phone in PHONES:
        # The broker thinks of a name; exclusive means that the queue is deleted with this connection.
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, EXCHANGE)
        channel.basic_consume(queue, on_news, auto_ack=True, consumer_tag=phone)

    for news in NEWS:
        channel.basic_publish(EXCHANGE, routing_key="ignored", body=news)
        print("published:", news)
    channel.start_consuming()

    for phone, all_news in received.items():
        print(f"{phone} received:", " | ".join(all_news))
