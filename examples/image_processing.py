"""Image processing: a web application hands pictures to a worker and gets them back, over two direct exchanges.

The request goes to `direct-rpc-requests` with the key of the work to be done. The answer goes to `rpc-replies` with the key
named in reply_to; its correlation_id says which request it belongs to. A picture is larger than a frame: the client
library cuts it in pieces and puts it together again.
"""

import sys
import threading
import uuid
from typing import Any

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
REQUESTS, REPLIES = "example.direct-rpc-requests", "example.rpc-replies"
PICTURE = bytes(300_000)


def declare_exchanges(channel: Any) -> None:
    for exchange in (REQUESTS, REPLIES):
        channel.exchange_declare(exchange, exchange_type="direct", auto_delete=True)


def work(ready: threading.Event) -> None:
    """Detect the faces in one picture."""
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        channel = connection.channel()
        declare_exchanges(channel)
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, REQUESTS, routing_key="detect-faces")
        ready.set()
        delivery, request, picture = next(channel.consume(queue))
        print(f"worker: a picture of {len(picture)} bytes, {request.content_type}")
        properties = pika.BasicProperties(app_id="face detection", correlation_id=request.correlation_id)
        properties.content_type, properties.headers = request.content_type, {"first_publish": request.timestamp}
        channel.basic_publish(REPLIES, request.reply_to, picture + b"with a frame around each face", properties)
        channel.basic_ack(delivery.delivery_tag)


ready = threading.Event()
worker = threading.Thread(target=work, args=(ready,))
worker.start()
ready.wait(10)
with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    declare_exchanges(channel)
    replies = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(replies, REPLIES, routing_key=replies)

    request_id = str(uuid.uuid4())
    properties = pika.BasicProperties("image/png", reply_to=replies, correlation_id=request_id, timestamp=1_700_000_000)
    print(f"web application: please detect the faces in {len(PICTURE)} bytes")
    channel.basic_publish(REQUESTS, "detect-faces", PICTURE, properties)

    _, reply, picture = next(channel.consume(replies, auto_ack=True))
    print(f"web application: {len(picture)} bytes from {reply.app_id}")
    print("it is the answer to my request:", reply.correlation_id == request_id)
    print("which was sent at", reply.headers["first_publish"])
worker.join()
