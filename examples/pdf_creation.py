"""PDF creation: a web application takes orders at once and leaves the slow work to a PDF processor.

Both use the direct exchange `pdf_events`: orders go to it with the key `pdf_create`, and what was done is reported with the
key `pdf_log`. A message with a key that nobody has bound is dropped.
"""

import json
import sys
from typing import Any

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
EXCHANGE = "example.pdf_events"
ORDERS = [("Ana", "ana@example.com"), ("Ivan", "ivan@example.com")]


def publish(channel: Any, key: str, content: dict[str, str]) -> None:
    properties = pika.BasicProperties(content_type="application/json")
    channel.basic_publish(EXCHANGE, key, json.dumps(content).encode(), properties)


with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    web, processor, log = (connection.channel() for _ in range(3))
    web.exchange_declare(EXCHANGE, exchange_type="direct", auto_delete=True)
    create_pdf_queue = processor.queue_declare("", exclusive=True).method.queue
    processor.queue_bind(create_pdf_queue, EXCHANGE, routing_key="pdf_create")
    create_log_queue = log.queue_declare("", exclusive=True).method.queue
    log.queue_bind(create_log_queue, EXCHANGE, routing_key="pdf_log")

    for name, email in ORDERS:
        publish(web, "pdf_create", {"name": name, "email": email})
        print(f"web application: {name}, your PDF is being made")
    publish(web, "pdf_print", {"name": "nobody reads this"})

    orders = processor.consume(create_pdf_queue)
    for _ in ORDERS:
        delivery, _, body = next(orders)
        order = json.loads(body)
        print(f"PDF processor: made {order['name']}.pdf")
        publish(processor, "pdf_log", {"file": f"{order['name']}.pdf", "sent to": order["email"]})
        processor.basic_ack(delivery.delivery_tag)

    reports = log.consume(create_log_queue, auto_ack=True)
    for _ in ORDERS:
        _, _, body = next(reports)
        print("log:", body.decode())
