"""What an operator may set that the model and the protocol read.

Named as in `Config`, with the unit behind it. What is a word there is a flag here: `prefetch_size`, `deliver`,
`unknown_exchange` and `expiration`.
"""

from leveret.broker.node_limit import NodeLimits
from leveret.broker.pages import Sizes
from leveret.broker.password import SHA256
from leveret.broker.seal import Seal

# Clients, and whoever reads definitions, decide by it what the broker can do.
RABBITMQ_VERSION = "3.13.7"


class Settings:
    """Limits and choices, with their defaults."""

    __slots__ = (
        "certificate_login",
        "channel_max",
        "cluster_name",
        "consumer_timeout_ms",
        "deliver_synced",
        "drop_to_unknown_exchange",
        "epoch_expiration",
        "frame_max",
        "heartbeat_s",
        "limits",
        "login_failures",
        "max_message_size",
        "node_name",
        "password_hashing",
        "password_length_min",
        "refuse_prefetch_size",
        "reserved_size_max",
        "seal",
        "sizes",
        "track_auth_attempt_source",
    )

    def __init__(self) -> None:
        self.node_name = "leveret@localhost"
        # What the cluster is called, if there is one, before it is given another name.
        self.cluster_name = ""
        self.channel_max = 2047
        self.frame_max = 131_072
        self.heartbeat_s = 60
        self.limits = NodeLimits()
        self.max_message_size = 128 << 20
        self.refuse_prefetch_size = False
        # Room that all clients together may have for large bodies which are still to come.
        self.reserved_size_max = 1 << 30
        self.seal = Seal()
        self.sizes = Sizes()
        # Whether a stored message waits for the disk before a consumer gets it.
        self.deliver_synced = False
        # How long a delivery may stay unacknowledged; 0 is for ever.
        self.consumer_timeout_ms = 1_800_000
        # Where requirements differ from RabbitMQ (docs/specification.md §12): what is published to an exchange that is not
        # there goes nowhere, and expiration is a Unix time.
        self.drop_to_unknown_exchange = False
        self.epoch_expiration = False
        # Whether logins are counted by address and user too.
        self.track_auth_attempt_source = False
        # So many logins may fail at once before they are slowed (`LoginGuard`); 0 is without limit.
        self.login_failures = 0
        # How new passwords are kept, and how long they are at least.
        self.password_hashing = SHA256
        self.password_length_min = 1
        # What of a client's certificate is its user's name: where it stands, and of alternative names which kind and one.
        self.certificate_login = ("distinguished_name", "dns", 0)
