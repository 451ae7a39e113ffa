"""Counters of messages, under the names that RabbitMQ's API has for them. They only grow.

A queue, an exchange and a channel each have them. What a vhost or the broker has is the sum over its channels, those that
are gone included: whoever closes a channel adds its counters to its vhost's.

They may have a breakdown, by each other thing with counters that had a share in it: a channel's for the exchanges it
publishes to and the queues it takes from, a queue's for the exchanges its messages came through. It is by those
other counters, which are nobody else's: what is deleted and made again has new ones. `BREAKDOWN_MAX` of them are kept.
"""

BREAKDOWN_MAX = 1024

NAMES = (
    "publish",
    "confirm",
    "return_unroutable",
    "drop_unroutable",
    "deliver",
    "deliver_no_ack",
    "redeliver",
    "get",
    "get_no_ack",
    "get_empty",
    "ack",
    "publish_in",
    "publish_out",
)
# What RabbitMQ lists together.
PUBLISHING = ("publish", "confirm", "return_unroutable", "drop_unroutable")
TAKING = ("deliver", "deliver_no_ack", "redeliver", "get", "get_no_ack", "get_empty", "ack")
PASSING = ("publish_in", "publish_out")


class Counters:
    """The counters."""

    __slots__ = (*NAMES, "breakdown")

    def __init__(self) -> None:
        self.publish = 0
        self.confirm = 0
        self.return_unroutable = 0
        self.drop_unroutable = 0
        self.deliver = 0
        self.deliver_no_ack = 0
        self.redeliver = 0
        self.get = 0
        self.get_no_ack = 0
        self.get_empty = 0
        self.ack = 0
        self.publish_in = 0
        self.publish_out = 0
        self.breakdown: dict[Counters, Counters] | None = None

    def breakdown_for(self, other: "Counters") -> "Counters":
        """What of this was for the owner of the `other` counters."""
        if self.breakdown is None:
            self.breakdown = {}
        found = self.breakdown.get(other)
        if found is None:
            if len(self.breakdown) >= BREAKDOWN_MAX:
                del self.breakdown[next(iter(self.breakdown))]
            found = self.breakdown[other] = Counters()
        return found

    @property
    def deliver_get(self) -> int:
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack

    def add(self, other: "Counters") -> None:
        # One by one: compiled, that is an addition each.
        self.publish += other.publish
        self.confirm += other.confirm
        self.return_unroutable += other.return_unroutable
        self.drop_unroutable += other.drop_unroutable
        self.deliver += other.deliver
        self.deliver_no_ack += other.deliver_no_ack
        self.redeliver += other.redeliver
        self.get += other.get
        self.get_no_ack += other.get_no_ack
        self.get_empty += other.get_empty
        self.ack += other.ack
        self.publish_in += other.publish_in
        self.publish_out += other.publish_out

    def counts(self, publishing: tuple[str, ...] = PUBLISHING) -> dict[str, int]:
        """As RabbitMQ lists them: all that belong together as soon as one is not 0, with `deliver_get` for what was taken.

        What passes an exchange is listed one by one. `publishing` are those that its owner has of that group.
        """
        found: dict[str, int] = {}
        for names in (publishing, TAKING, PASSING[:1], PASSING[1:]):
            values = {name: getattr(self, name) for name in names}
            if any(values.values()):
                found |= values
        if "deliver" in found:
            found["deliver_get"] = self.deliver_get
        return found
