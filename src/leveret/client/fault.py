"""Faults of a client."""


class ClientFault(Exception):
    """A connection or channel that can no longer be used; `code` is the broker's reply code, 0 if it sent none."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(f"{code}: {text}" if code else text)
        self.code = code
        self.text = text


class Disconnected(ClientFault):
    """The connection could not be made, or has ended."""


class ChannelClosed(ClientFault):
    """The broker closed the channel; another may be opened."""
