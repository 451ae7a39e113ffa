"""Exchange to exchange: an exchange can be bound to another one as if it were a queue.

Here every picture passes the parent exchange, which gives all of them to the audit and to the child exchange; the child
shares them out by their keys. Who publishes knows only the parent.
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
PARENT, CHILD = "example.parent", "example.child"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare(PARENT, exchange_type="fanout", auto_delete=True)
    channel.exchange_declare(CHILD, exchange_type="direct", auto_delete=True)
    channel.exchange_bind(destination=CHILD, source=PARENT)

    queues = {name: channel.queue_declare("", exclusive=True).method.queue for name in ("audit", "new pictures")}
    channel.queue_bind(queues["audit"], PARENT)
    channel.queue_bind(queues["new pictures"], CHILD, routing_key="new")

    for key, body in [("new", "a cat"), ("delete", "a dog"), ("new", "a hare")]:
        channel.basic_publish(PARENT, routing_key=key, body=body)
        print(f"published to the parent: {key}, {body}")

    for name, queue in queues.items():
        while True:
            delivery, _, body = channel.basic_get(queue, auto_ack=True)
            if delivery is None:
                break
            print(f"{name} got {delivery.routing_key}, {body.decode()}")
