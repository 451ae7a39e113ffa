"""Dead letters: what a queue gives up goes to an exchange, so that nothing is lost unseen.

A queue gives up messages that a consumer rejects, that live longer than they may, and that no longer fit. The header x-death
says which queue it was and why.
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
EXCHANGE = "example.dead_letters"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, exchange_type="fanout", auto_delete=True)
    cemetery = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(cemetery, EXCHANGE)
    dead_letters = channel.consume(cemetery, auto_ack=True)

    arguments = {"x-dead-letter-exchange": EXCHANGE, "x-max-length": 2}
    inbox = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue

    def publish(body: str, **properties: str) -> None:
        channel.basic_publish("", routing_key=inbox, body=body, properties=pika.BasicProperties(**properties))

    def show_dead_letter() -> None:
        _, properties, body = next(dead_letters)
        death = properties.headers["x-death"][0]
        assert death["queue"] == inbox
        print(f"{body.decode()}: {death['reason']}")

    publish("a letter nobody can read")
    delivery, _, _ = channel.basic_get(inbox)
    channel.basic_reject(delivery.delivery_tag, requeue=False)
    show_dead_letter()

    publish("an invitation for yesterday", expiration="50")
    show_dead_letter()

    for number in (1, 2, 3):
        publish(f"circular {number}")
    show_dead_letter()
    print("left in the inbox:", channel.queue_declare(inbox, passive=True).method.message_count)
