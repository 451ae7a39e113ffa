"""What an operator may set that the model and the protocol read."""

from leveret.broker.pages import Sizes

# Clients, and whoever reads definitions, decide by it what the broker can do.
RABBITMQ_VERSION = "3.13.7"


class Settings:
    """Limits and choices, with their defaults."""

    __slots__ = (
        "ack_timeout_ms",
        "channel_max",
        "cluster_name",
        "deliver_synced",
        "drop_to_unknown_exchange",
        "epoch_expiration",
        "frame_max",
        "heartbeat_s",
        "logins_by_source",
        "message_size_max",
        "node_name",
        "refuse_prefetch_size",
        "reserved_size_max",
        "sizes",
    )

    def __init__(self) -> None:
        self.node_name = "leveret@localhost"
        # What the cluster is called, if there is one, before it is given another name.
        self.cluster_name = ""
        self.channel_max = 2047
        self.frame_max = 131_072
        self.heartbeat_s = 60
        self.message_size_max = 128 << 20
        self.refuse_prefetch_size = False
        # Room that all clients together may have for large bodies which are still to come.
        self.reserved_size_max = 1 << 30
        self.sizes = Sizes()
        # Whether a stored message waits for the disk before a consumer gets it.
        self.deliver_synced = False
        # How long a delivery may stay unacknowledged; 0 is for ever.
        self.ack_timeout_ms = 1_800_000
        # The seeds' rules: what is published to an exchange that is not there goes nowhere, and expiration is a Unix time.
        self.drop_to_unknown_exchange = False
        self.epoch_expiration = False
        # Whether logins are counted by address and user too.
        self.logins_by_source = False
