"""Headers: a headers exchange looks at the message's headers rather than at its routing key.

With x-match=all everything named in the binding must be in the message, with x-match=any one of them is enough. Here
pictures are sorted by where they come from and what happened to them.
"""

import sys
from typing import Any

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
EXCHANGE = "example.pictures"
BINDINGS: dict[str, dict[str, Any]] = {
    "face detection": {"x-match": "all", "source": "profile", "object": "image", "action": "new"},
    "storage": {"x-match": "any", "action": "new", "source": "gallery"},
}
MESSAGES: dict[str, dict[str, Any]] = {
    "new portrait": {"source": "profile", "object": "image", "action": "new"},
    "deleted portrait": {"source": "profile", "object": "image", "action": "delete"},
    "deleted landscape": {"source": "gallery", "object": "image", "action": "delete"},
    "new film": {"source": "gallery", "object": "video", "action": "new", "seconds": 12},
}

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, exchange_type="headers", auto_delete=True)
    queues = {}
    for reader, arguments in BINDINGS.items():
        queues[reader] = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queues[reader], EXCHANGE, arguments=arguments)

    for body, headers in MESSAGES.items():
        channel.basic_publish(EXCHANGE, routing_key="", body=body, properties=pika.BasicProperties(headers=headers))
        print(f"published {body}:", ", ".join(f"{name}={value}" for name, value in headers.items()))

    for reader, queue in queues.items():
        while True:
            delivery, _, message = channel.basic_get(queue, auto_ack=True)
            if delivery is None:
                break
            print(f"{reader} got {message.decode()}")
