"""Consistent hashing: an exchange shares messages out among its queues by a hash of the routing key.

Equal keys always go to the same queue, so what belongs together stays in order although several queues share the load. The
key of a binding is its weight: a queue of weight 2 gets about twice as much as one of weight 1.
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
EXCHANGE = "example.orders"
WEIGHTS = {"small server": "1", "large server": "2"}
CUSTOMERS = [f"customer {number}" for number in range(1000)]

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, exchange_type="x-consistent-hash", auto_delete=True)
    queues = {}
    for server, weight in WEIGHTS.items():
        queues[server] = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queues[server], EXCHANGE, routing_key=weight)

    for step in ("ordered", "paid", "sent"):
        for customer in CUSTOMERS:
            channel.basic_publish(EXCHANGE, routing_key=customer, body=step)
    print("published 3 messages for each of 1000 customers")

    customers_of: dict[str, dict[str, list[str]]] = {server: {} for server in WEIGHTS}
    for server, queue in queues.items():
        while True:
            delivery, _, body = channel.basic_get(queue, auto_ack=True)
            if delivery is None:
                break
            customers_of[server].setdefault(delivery.routing_key, []).append(body.decode())

    small, large = customers_of["small server"], customers_of["large server"]
    print("together they have", len(small) + len(large), "customers")
    in_order = all(steps == ["ordered", "paid", "sent"] for steps in (*small.values(), *large.values()))
    print("each customer's messages are in one queue and in order:", in_order)
    print("the large server has about two thirds of them:", 0.57 < len(large) / len(CUSTOMERS) < 0.77)
