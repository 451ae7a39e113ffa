"""Messages as the API shows them."""

import base64

from leveret.broker.message import Entry
from leveret.management.http.json import JsonObject
from leveret.management.http.json_names import as_text
from leveret.management.http.json_table import properties_view
from leveret.wire.content import body_of, properties_of


class PayloadFormat:
    """How bodies are shown: `auto` (as text if they are UTF-8) or `base64`, and how much of them."""

    __slots__ = ("encoding", "truncate")

    def __init__(self, encoding: str = "auto", truncate: int | None = None) -> None:
        self.encoding = encoding
        self.truncate = truncate

    def size(self, body_size: int) -> int:
        """How much of a body is shown."""
        return body_size if self.truncate is None else min(body_size, self.truncate)

    def payload(self, body: bytes) -> dict[str, str]:
        """A body, or the beginning of it."""
        shown = body[: self.size(len(body))]
        if self.encoding == "auto":
            try:
                return {"payload": shown.decode(), "payload_encoding": "string"}
            except UnicodeDecodeError:
                pass
        return {"payload": base64.b64encode(shown).decode(), "payload_encoding": "base64"}


def message_view(entry: Entry, message_count: int, payload_format: PayloadFormat) -> JsonObject:
    """A message with its content; `message_count` are ready behind it."""
    message = entry.message
    return {
        "payload_bytes": message.body_size,
        "redelivered": entry.redelivered,
        "exchange": as_text(message.origin.exchange),
        "routing_key": as_text(message.origin.routing_key),
        "message_count": message_count,
        "properties": properties_view(properties_of(message.content, message.header_size)),
        **payload_format.payload(body_of(message.content, message.header_size, message.body_size, message.frame_size)),
    }
