"""Several nodes as one broker: replicated queues on NATS JetStream. Nothing of it is imported without `--cluster`."""
