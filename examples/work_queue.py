"""Work queue: tasks wait in one queue, and each is done by one of several workers.

A worker takes one task at a time (prefetch_count=1) and acknowledges it when it is done, so a busy worker is passed over.
What a worker had in hand when it died goes to another one.
"""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
QUEUE = "example.tasks"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    office = connection.channel()
    # Queue and tasks are to outlive the broker: the queue is durable, the messages are persistent.
    office.queue_declare(QUEUE, durable=True)
    for number in range(1, 5):
        persistent = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
        office.basic_publish(exchange="", routing_key=QUEUE, body=f"task {number}", properties=persistent)
    print("4 tasks are waiting")

    # Workers are usually processes of their own. Here each is a channel, and `next` waits for its next task.
    anna, boris = connection.channel(), connection.channel()
    for worker in (anna, boris):
        worker.basic_qos(prefetch_count=1)
    tasks_of_anna, tasks_of_boris = anna.consume(QUEUE), boris.consume(QUEUE)

    delivery, _, task = next(tasks_of_anna)
    print("Anna takes", task.decode())
    _, _, slow_task = next(tasks_of_boris)
    print("Boris takes", slow_task.decode(), "and is slow")

    for _ in range(2):
        anna.basic_ack(delivery.delivery_tag)
        delivery, _, task = next(tasks_of_anna)
        print("Anna is done and takes", task.decode())

    boris.close()
    print("Boris is gone without a word")
    anna.basic_ack(delivery.delivery_tag)
    delivery, _, task = next(tasks_of_anna)
    print("Anna takes", task.decode(), "because it was never acknowledged; redelivered:", delivery.redelivered)
    anna.basic_ack(delivery.delivery_tag)

    anna.close()
    print("left in the queue:", office.queue_declare(QUEUE, passive=True).method.message_count)
    office.queue_delete(QUEUE)
