"""What an operator may set that the model and the protocol read."""


class Settings:
    """Limits and choices, with their defaults."""

    __slots__ = ("channel_max", "frame_max", "heartbeat_s", "message_size_max", "refuse_prefetch_size")

    def __init__(self) -> None:
        self.channel_max = 2047
        self.frame_max = 131_072
        self.heartbeat_s = 60
        self.message_size_max = 128 << 20
        self.refuse_prefetch_size = False
