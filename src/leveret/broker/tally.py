"""Counters of messages, under the names that RabbitMQ's API has for them. They only grow.

A queue, an exchange and a channel each have one. What a vhost or the broker has is the sum over its channels, those that
are gone included: whoever closes a channel adds its counters to its vhost's.

A tally may have parts, one for each other thing with a tally that had a share in it: a channel's for the exchanges it
publishes to and the queues it takes from, a queue's for the exchanges its messages came through. They are known by that
other tally, which is nobody else's: what is deleted and made again has a new one. `PARTS_MAX` of them are kept.
"""

PARTS_MAX = 1024

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


class Tally:
    """The counters."""

    __slots__ = (*NAMES, "parts")

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
        self.parts: dict[Tally, Tally] | None = None

    def part(self, other: "Tally") -> "Tally":
        """The part that the owner of the `other` tally has in this."""
        if self.parts is None:
            self.parts = {}
        found = self.parts.get(other)
        if found is None:
            if len(self.parts) >= PARTS_MAX:
                del self.parts[next(iter(self.parts))]
            found = self.parts[other] = Tally()
        return found

    @property
    def deliver_get(self) -> int:
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack

    def add(self, other: "Tally") -> None:
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
