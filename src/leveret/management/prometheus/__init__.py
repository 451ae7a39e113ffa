"""RabbitMQ's metrics in Prometheus' text format."""
