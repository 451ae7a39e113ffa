"""The HTTP API: that of RabbitMQ's management plug-in, and more; Prometheus' metrics; and the web page's files."""
