"""Priorities: a queue declared with x-max-priority hands out the most urgent messages first.

Messages of the same priority keep their order; those without a priority come last. Only what is still waiting is sorted: a
consumer should not take many messages in advance.
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
PATIENTS = [("cold", None), ("broken arm", 5), ("heart attack", 9), ("cough", None), ("burn", 5)]

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    waiting_room = channel.queue_declare("", exclusive=True, arguments={"x-max-priority": 9}).method.queue
    for complaint, priority in PATIENTS:
        channel.basic_publish("", waiting_room, complaint, pika.BasicProperties(priority=priority))
        print(f"{complaint} comes in", f"with priority {priority}" if priority else "without a priority")

    channel.basic_qos(prefetch_count=1)
    called = channel.consume(waiting_room)
    for _ in PATIENTS:
        delivery, _, body = next(called)
        print("next, please:", body.decode())
        channel.basic_ack(delivery.delivery_tag)
