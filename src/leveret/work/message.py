"""A message as a handler gets it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from leveret.client.incoming import Delivery
from leveret.wire.properties import Properties
from leveret.work.body import decode_body, encode_body
from leveret.work.channel import Channel

RECEIPT_TYPE = "leveret.receipt"


class Message:
    """A message. If a handler acknowledges or rejects it itself, the policies do nothing more."""

    __slots__ = ("_channel", "_content", "_delivery", "_properties", "consumer_id", "requeue_delay_s", "settled")

    def __init__(self, delivery: Delivery, consumer_id: str | None, channel: Channel) -> None:
        self._delivery = delivery
        self._channel = channel
        self._properties: Properties | None = None
        self._content: tuple[Any] | None = None
        self.consumer_id = consumer_id
        # "acked", "requeued" or "rejected" once it is settled.
        self.settled = ""
        # How long it is kept before it is requeued: one that always fails must not keep everybody busy.
        self.requeue_delay_s: Callable[[Message], float] | None = None

    @property
    def body(self) -> bytes:
        return self._delivery.body

    @property
    def content(self) -> Any:
        """The body, decoded as its content-type and content-encoding say; BadBody if that fails."""
        if self._content is None:
            properties = self.properties
            self._content = (decode_body(self.body, properties.content_type, properties.content_encoding),)
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
        """Its message-id; None if it has none, or its properties cannot be decoded."""
        try:
            return self.properties.message_id
        except Exception:  # needed for log lines, whatever the properties are
            return None

    @property
    def octets(self) -> tuple[bytes, ...]:
        """All of it as it was delivered."""
        delivery = self._delivery
        names = (delivery.exchange.encode(errors="replace"), delivery.routing_key.encode(errors="replace"))
        return (*names, delivery.properties, delivery.body)

    @property
    def title(self) -> str:
        """What logs call it."""
        if self.message_id:
            return f"message {self.message_id}"
        return f"message with routing key '{self.routing_key}', delivery {self._delivery.tag}"

    def ack(self) -> None:
        """Acknowledge it: it is gone from its queue."""
        if not self.settled:
            self.settled = "acked"
            self._channel.ack(self._delivery.tag)

    def reject(self, requeue: bool = False) -> None:
        """Requeue it, after a pause that grows each time; or dead-letter it, at once."""
        if not self.settled:
            self.settled = "requeued" if requeue else "rejected"
            after_s = self.requeue_delay_s(self) if requeue and self.requeue_delay_s is not None else 0.0
            self._channel.reject(self._delivery.tag, requeue, after_s)

    def wait_until_sent(self) -> bool:
        """Wait until its acknowledgement is in the socket; False if it could not be sent, as the connection has ended."""
        return self._channel.wait_until_sent()

    def leave_unacked(self) -> tuple[int, int]:
        """Leave it unacknowledged; how many messages and bytes are left so on this connection."""
        self._channel.leave_unacked(len(self.body))
        return self._channel.left_count, self._channel.left_bytes

    def reply(self, body: object, **properties: Any) -> bool:
        """Publish to the message's reply-to, with its correlation-id; False if it has none, or the connection has ended.

        Bytes are sent as they are, str as text, anything else as JSON.
        """
        reply_to = self.properties.reply_to
        if not reply_to:
            return False
        octets, content_type = encode_body(body)
        answer = Properties(content_type=content_type, correlation_id=self.properties.correlation_id)
        return self._channel.publish("", reply_to, replace(answer, **properties), octets)

    def send_receipt(self, outcome: str, error: str = "") -> bool:
        """Tell the sender what became of it; False if there is no reply-to, or the connection has ended."""
        headers = {"outcome": outcome}
        if self.consumer_id:
            headers["ConsumerId"] = self.consumer_id
        if error:
            headers["error"] = error
        return self.reply(b"", type=RECEIPT_TYPE, headers=headers)
