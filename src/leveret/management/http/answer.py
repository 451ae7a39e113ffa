"""What a route gives back, and how faults become answers."""

from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus

from leveret.errors import AccessRefused, AMQPError, NotAllowed, NotFound
from leveret.management.http.json import Json, as_json

PIECE_BYTES = 64 * 1024

# The names of faults in bodies, as RabbitMQ has them.
KINDS = {
    400: "bad_request",
    401: "not_authorised",
    404: "not_found",
    405: "method_not_allowed",
    413: "payload_too_large",
    429: "too_many_requests",
    500: "internal_server_error",
    503: "service_unavailable",
}


class Answer:
    """A status and a body: a value, sent as JSON; None for none."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        body: Json | bytes = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        content_type: str = "json",
    ) -> None:
        self.body = body
        self.status = status
        self.headers = dict(headers or {})
        self.content_type = content_type

    def octets(self) -> bytes:
        if self.body is None:
            return b""
        return self.body if isinstance(self.body, bytes) else as_json(self.body)


class LargeAnswer(Answer):
    """A large answer, which is sent piece by piece; its octets are there already."""

    __slots__ = ("pieces",)

    def __init__(
        self,
        pieces: Sequence[bytes | bytearray],
        headers: Mapping[str, str] | None = None,
        content_type: str = "json",
    ) -> None:
        super().__init__(headers=headers, content_type=content_type)
        self.pieces = pieces

    def octets(self) -> bytes:
        return b"".join(self.pieces)


class Body:
    """The octets of an answer, in pieces none of which takes long to make or to send."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[bytes | bytearray] = []

    def add(self, octets: bytes) -> None:
        last = self.pieces[-1] if self.pieces else None
        if isinstance(last, bytearray) and len(last) < PIECE_BYTES:
            last += octets
        else:
            self.pieces.append(bytearray(octets))


class StreamAnswer(Answer):
    """An answer that goes on: pieces of a body, sent as they come."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        super().__init__(content_type="text/event-stream")
        self.pieces = pieces


class Refused(Exception):
    """A request that cannot be met, and the answer to it."""

    def __init__(self, status: int, reason: str, kind: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.headers = headers
        self.status = status
        self.reason = reason
        self.kind = kind or KINDS.get(status, HTTPStatus(status).phrase.lower().replace(" ", "_"))

    def answer(self) -> Answer:
        return Answer({"error": self.kind, "reason": self.reason}, self.status, self.headers)


def bad_request(reason: str) -> Refused:
    return Refused(400, reason)


def stats_disabled() -> Refused:
    """RabbitMQ's answer for what is nothing without statistics, when they are not wanted."""
    return bad_request("Stats in management UI are disabled on this node")


def not_found(reason: str = "Not Found") -> Refused:
    """RabbitMQ's answer for an object that is not there."""
    return Refused(404, reason, "Object Not Found")


def created(existed: bool) -> Answer:
    """What a PUT answers."""
    return Answer(None, 204 if existed else 201)


NO_CONTENT = 204


def done() -> Answer:
    return Answer(None, NO_CONTENT)


def from_fault(error: AMQPError) -> Refused:
    """The model's fault as RabbitMQ's API tells it."""
    if isinstance(error, NotFound):
        return Refused(404, error.reply_text)
    if isinstance(error, AccessRefused | NotAllowed):
        return Refused(401, error.reply_text)
    return bad_request(error.reply_text)
