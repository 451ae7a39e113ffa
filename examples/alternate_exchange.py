"""Alternate exchange: what an exchange cannot route goes to another exchange rather than being dropped.

The alternate exchange is named when the main one is declared. It is an ordinary exchange, most often a fanout with one
queue that somebody looks through.
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
MAIN, ALTERNATE = "example.letters", "example.unroutable_letters"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare(ALTERNATE, exchange_type="fanout", auto_delete=True)
    arguments = {"alternate-exchange": ALTERNATE}
    channel.exchange_declare(MAIN, exchange_type="direct", auto_delete=True, arguments=arguments)

    queues = {name: channel.queue_declare("", exclusive=True).method.queue for name in ("Prague", "unroutable")}
    channel.queue_bind(queues["Prague"], MAIN, routing_key="Prague")
    channel.queue_bind(queues["unroutable"], ALTERNATE)

    for city in ("Prague", "Atlantis"):
        channel.basic_publish(MAIN, routing_key=city, body=f"a letter to {city}")
        print("published a letter to", city)

    for name, queue in queues.items():
        delivery, _, body = channel.basic_get(queue, auto_ack=True)
        print(f"{name}: {body.decode()} (exchange {delivery.exchange}, key {delivery.routing_key})")
