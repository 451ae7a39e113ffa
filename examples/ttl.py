"""Time to live: messages that nobody took in time are dropped, and queues that nobody uses too.

A message may say how long it lives (expiration), a queue how long its messages live (x-message-ttl) and how long it stays
without being used (x-expires); all are in milliseconds. With a dead-letter exchange, expiry makes a delay: the message
waits in a queue without consumers and moves on when its time is over.
"""

import sys
import time

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()

    forecasts = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", forecasts, "rain in the next minute", pika.BasicProperties(expiration="100"))
    channel.basic_publish("", forecasts, "a warm summer")
    prices = channel.queue_declare("", exclusive=True, arguments={"x-message-ttl": 100}).method.queue
    channel.basic_publish("", prices, "gold: 61")
    unused = channel.queue_declare("", arguments={"x-expires": 100}).method.queue
    connection.sleep(0.5)

    print("of two forecasts is left:", channel.basic_get(forecasts, auto_ack=True)[2].decode())
    print("prices left:", channel.queue_declare(prices, passive=True).method.message_count)
    try:
        connection.channel().queue_declare(unused, passive=True)
    except pika.exceptions.ChannelClosedByBroker as error:
        print("the unused queue is gone:", error.reply_code, error.reply_text.split(" - ")[0])

    # The default exchange (named "") takes the dead letter to the queue that its routing key names.
    alarm = channel.queue_declare("", exclusive=True).method.queue
    arguments = {"x-message-ttl": 300, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": alarm}
    delay = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    started = time.monotonic()
    channel.basic_publish("", delay, "wake up")
    _, _, body = next(channel.consume(alarm, auto_ack=True))
    print(f"{body.decode()}, which came after 300 ms or more: {time.monotonic() - started >= 0.3}")
