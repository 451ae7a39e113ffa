"""Sums over many queues, for whoever asks how much there is of everything; a hundred thousand take some milliseconds."""

from leveret.broker.queue import Queue


class QueueSums:
    """How many messages and bytes some queues have, how many of those are only on disk, and how many consumers."""

    __slots__ = ("consumers", "paged", "paged_bytes", "queues", "ready", "ready_bytes", "unacked", "unacked_bytes")

    def __init__(self) -> None:
        self.queues = 0
        self.ready = 0
        self.unacked = 0
        self.ready_bytes = 0
        self.unacked_bytes = 0
        self.paged = 0
        self.paged_bytes = 0
        self.consumers = 0

    def add(self, queues: dict[str, Queue]) -> None:
        """Add those of a vhost."""
        self.queues += len(queues)
        for queue in queues.values():
            self.ready += queue.backlog.count
            self.unacked += queue.unacked_count
            self.ready_bytes += queue.backlog.body_bytes
            self.unacked_bytes += queue.unacked_bytes
            self.consumers += len(queue.rotation.everyone)
            self.paged += queue.backlog.pages.count
            self.paged_bytes += queue.backlog.pages.body_bytes
