"""A message as a handler gets it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from leveret.client.incoming import Delivery
from leveret.wire.properties import Properties
from leveret.work.decoding import decoded

RECEIPT_TYPE = "leveret.receipt"


class Line(Protocol):
    """The connection a message has come through; may be used from any thread, and does nothing once it is cut."""

    def ack(self, tag: int) -> None: ...

    def reject(self, tag: int, requeue: bool, after_s: float = 0.0) -> None: ...

    def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> bool: ...

    def sent(self) -> bool: ...

    def leave(self, size: int) -> None: ...

    @property
    def left_count(self) -> int: ...

    @property
    def left_bytes(self) -> int: ...


class Message:
    """A message. A handler that acknowledges or rejects it itself has decided; the policies do nothing then."""

    __slots__ = ("_content", "_delivery", "_line", "_properties", "consumer_id", "pause_s", "settled")

    def __init__(self, delivery: Delivery, consumer_id: str | None, line: Line) -> None:
        self._delivery = delivery
        self._line = line
        self._properties: Properties | None = None
        self._content: tuple[Any] | None = None
        self.consumer_id = consumer_id
        # "acked", "requeued" or "rejected" once it is decided.
        self.settled = ""
        # How long it is kept when a handler gives it back: what always comes back must not keep everybody busy.
        self.pause_s: Callable[[Message], float] | None = None

    @property
    def body(self) -> bytes:
        return self._delivery.body

    @property
    def content(self) -> Any:
        """The body as content-type and content-encoding say; BadBody if it is not that."""
        if self._content is None:
            properties = self.properties
            self._content = (decoded(self.body, properties.content_type, properties.content_encoding),)
        return self._content[0]

    @property
    def properties(self) -> Properties:
        if self._properties is None:
            self._properties = self._delivery.decoded()
        return self._properties

    @property
    def headers(self) -> Mapping[str, Any]:
        return self.properties.headers or {}

    @property
    def exchange(self) -> str:
        return self._delivery.exchange

    @property
    def routing_key(self) -> str:
        return self._delivery.routing_key

    @property
    def redelivered(self) -> bool:
        return self._delivery.redelivered

    @property
    def message_id(self) -> str | None:
        """Its message-id; None also if its properties cannot be read."""
        try:
            return self.properties.message_id
        except Exception:  # whatever came, a log line must be possible
            return None

    @property
    def octets(self) -> tuple[bytes, ...]:
        """All of it as it came."""
        delivery = self._delivery
        names = (delivery.exchange.encode(errors="replace"), delivery.routing_key.encode(errors="replace"))
        return (*names, delivery.properties, delivery.body)

    @property
    def title(self) -> str:
        """What logs call it."""
        named = self.message_id
        return (
            f"message {named}" if named else f"message with routing key '{self.routing_key}', delivery {self._delivery.tag}"
        )

    def ack(self) -> None:
        """The broker may forget it."""
        if not self.settled:
            self.settled = "acked"
            self._line.ack(self._delivery.tag)

    def reject(self, requeue: bool = False) -> None:
        """Give it back to its queue, after a pause that grows each time; or to where dead letters go, at once."""
        if not self.settled:
            self.settled = "requeued" if requeue else "rejected"
            after_s = self.pause_s(self) if requeue and self.pause_s is not None else 0.0
            self._line.reject(self._delivery.tag, requeue, after_s)

    def sent(self) -> bool:
        """Wait until the broker has been told; False if it was not, as the connection is cut."""
        return self._line.sent()

    def leave(self) -> tuple[int, int]:
        """Leave it unacknowledged; how many messages and bytes of this connection are by now."""
        self._line.leave(len(self.body))
        return self._line.left_count, self._line.left_bytes

    def reply(self, body: object, **properties: Any) -> bool:
        """Answer to the message's reply-to, with its correlation-id; False if it has none, or nothing can be sent.

        Bytes go as they are, text as text, anything else as JSON.
        """
        reply_to = self.properties.reply_to
        if not reply_to:
            return False
        octets, kind = encoded(body)
        answer = Properties(content_type=kind, correlation_id=self.properties.correlation_id)
        return self._line.publish("", reply_to, replace(answer, **properties), octets)

    def send_receipt(self, outcome: str, error: str = "") -> bool:
        """Tell the sender what has become of it; False if it did not say where to, or nothing can be sent."""
        headers = {"outcome": outcome}
        if self.consumer_id:
            headers["ConsumerId"] = self.consumer_id
        if error:
            headers["error"] = error
        return self.reply(b"", type=RECEIPT_TYPE, headers=headers)


def encoded(body: object) -> tuple[bytes, str | None]:
    """A body, and the content-type it gets where nobody says another."""
    if isinstance(body, str):
        return body.encode(), "text/plain; charset=utf-8"
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body), None
    return msgspec.json.encode(body), "application/json"
