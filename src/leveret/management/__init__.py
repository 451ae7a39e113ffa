"""The HTTP API: what RabbitMQ's management plug-in has, and more."""
