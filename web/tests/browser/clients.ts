// Programs of a real client (pika), for what the HTTP API cannot do.

/** Publishes to an exchange with a key, and consumes from a queue, until it is ended. */
export const WORKER = `
import sys, time, pika
connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
queue, exchange, key = sys.argv[2:5]
taking, giving = connection.channel(), connection.channel()
taking.basic_qos(prefetch_count=10)
taking.basic_consume(queue, lambda channel, method, *_: channel.basic_ack(method.delivery_tag), consumer_tag="worker")
print("running", flush=True)
while True:
    giving.basic_publish(exchange, key, b'{"order": 1}', pika.BasicProperties(content_type="application/json"))
    connection.process_data_events(0)
    time.sleep(0.02)
`;

/** Declares so many queues, and ends. */
export const DECLARE_MANY = `
import sys, pika
connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
channel = connection.channel()
for number in range(int(sys.argv[2])):
    channel.queue_declare(f"many.{number:05}", durable=False)
print("declared", flush=True)
connection.close()
`;
