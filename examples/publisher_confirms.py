"""Publisher confirms: the broker tells the publisher what became of each message.

With confirms on, pika's basic_publish returns when the broker has the message. It raises an error when the message could not
be routed although it had to be (mandatory) and when a queue refused it.
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.confirm_delivery()
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue

    for number in (1, 2, 3):
        try:
            channel.basic_publish("", queue, f"message {number}")
            print(f"message {number}: confirmed, the broker has it")
        except pika.exceptions.NackError:
            print(f"message {number}: refused, the queue is full")

    try:
        channel.basic_publish("", "example.no-such-queue", "message 4", mandatory=True)
    except pika.exceptions.UnroutableError as error:
        returned = error.messages[0]
        print(f"{returned.body.decode()}: returned, {returned.method.reply_code} {returned.method.reply_text}")

    channel.basic_publish("", "example.no-such-queue", "message 5")
    print("message 5: confirmed, though it went nowhere: it was not mandatory")
