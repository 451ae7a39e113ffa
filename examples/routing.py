"""Routing: a direct exchange gives a message to the queues bound with exactly the message's routing key.

A queue may be bound with several keys and several queues with the same key. What fits no binding is dropped.
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
EXCHANGE = "example.direct_logs"
BINDINGS = {"pager": ["error"], "log file": ["info", "warning", "error"]}
LOGS = {"info": "started", "error": "disk full", "debug": "x = 3", "warning": "disk nearly full"}

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, exchange_type="direct", auto_delete=True)

    queues = {}
    for reader, severities in BINDINGS.items():
        queues[reader] = channel.queue_declare("", exclusive=True).method.queue
        for severity in severities:
            channel.queue_bind(queues[reader], EXCHANGE, routing_key=severity)

    for severity, text in LOGS.items():
        channel.basic_publish(EXCHANGE, routing_key=severity, body=f"{severity}: {text}")
        print("published", f"{severity}: {text}")

    for reader, queue in queues.items():
        while True:
            delivery, _, body = channel.basic_get(queue, auto_ack=True)
            if delivery is None:
                break
            print(f"{reader} got", body.decode())
