"""What can go wrong for a client."""


class ClientFault(Exception):
    """A connection or channel that can be used no more; `code` is the broker's, 0 if it said none."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(f"{code}: {text}" if code else text)
        self.code = code
        self.text = text


class Disconnected(ClientFault):
    """There is no connection, or it has ended."""


class ChannelClosed(ClientFault):
    """The broker has closed the channel; another may be opened."""
