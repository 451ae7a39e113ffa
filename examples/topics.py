"""Topics: a topic exchange compares the words of the routing key with patterns.

In a pattern `*` stands for one word and `#` for any number of words, also none; a message reaches every queue that has a
fitting pattern. Here agreements are filed by continent, city and kind of shop.
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
EXCHANGE = "example.agreements"
PATTERNS = {
    "berlin_agreements": "agreements.eu.berlin.#",
    "all_agreements": "agreements.#",
    "store_agreements": "agreements.eu.*.store",
}
KEYS = [
    "agreements.us",
    "agreements.eu.berlin",
    "agreements.eu.berlin.headstore",
    "agreements.eu.berlin.store",
    "agreements.eu.stockholm.store",
]

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, exchange_type="topic", auto_delete=True)
    queues = {}
    for reader, pattern in PATTERNS.items():
        queues[reader] = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queues[reader], EXCHANGE, routing_key=pattern)

    for key in KEYS:
        channel.basic_publish(EXCHANGE, routing_key=key, body="an agreement")

    for reader, queue in queues.items():
        print(f"{reader} ({PATTERNS[reader]})")
        while True:
            delivery, _, _ = channel.basic_get(queue, auto_ack=True)
            if delivery is None:
                break
            print("   ", delivery.routing_key)
