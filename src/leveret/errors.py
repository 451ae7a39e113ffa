"""What can go wrong between a client and the broker, one class for each AMQP reply code.

The model and the protocol only raise these; `protocol/connection.py` turns one into a channel.close or connection.close,
the management API into an HTTP answer. Imports nothing.

A *hard* error ends the connection, a soft one the channel. The reply text is "NAME - explanation".
"""

REPLY_TEXT_MAX_BYTES = 255


class AMQPError(Exception):
    """A fault with a reply code; the message is the explanation that follows the code's name."""

    code = 541
    name = "INTERNAL_ERROR"
    hard = True
    http_status = 500

    @property
    def reply_text(self) -> str:
        """The text for a close method, cut as RabbitMQ cuts it to fit a short string."""
        text = f"{self.name} - {self}" if self.args else self.name
        # Names in a basic.publish may be any octets; a close must be text.
        encoded = text.encode(errors="replace")
        if len(encoded) <= REPLY_TEXT_MAX_BYTES:
            return encoded.decode()
        return encoded[: REPLY_TEXT_MAX_BYTES - 3].decode(errors="ignore") + "..."


class NoRoute(AMQPError):
    code, name, hard, http_status = 312, "NO_ROUTE", False, 404


class ConnectionForced(AMQPError):
    code, name, hard, http_status = 320, "CONNECTION_FORCED", True, 503


class AccessRefused(AMQPError):
    code, name, hard, http_status = 403, "ACCESS_REFUSED", False, 403


class NotFound(AMQPError):
    code, name, hard, http_status = 404, "NOT_FOUND", False, 404


class ResourceLocked(AMQPError):
    code, name, hard, http_status = 405, "RESOURCE_LOCKED", False, 400


class PreconditionFailed(AMQPError):
    code, name, hard, http_status = 406, "PRECONDITION_FAILED", False, 400


class FrameError(AMQPError):
    code, name, hard, http_status = 501, "FRAME_ERROR", True, 400


class MalformedString(FrameError):
    """RabbitMQ: a short string that is not UTF-8 is blamed on no method."""


class SyntaxFault(AMQPError):
    code, name, hard, http_status = 502, "SYNTAX_ERROR", True, 400


class CommandInvalid(AMQPError):
    code, name, hard, http_status = 503, "COMMAND_INVALID", True, 400


class ChannelError(AMQPError):
    code, name, hard, http_status = 504, "CHANNEL_ERROR", True, 400


class UnexpectedFrame(AMQPError):
    code, name, hard, http_status = 505, "UNEXPECTED_FRAME", True, 400


class ResourceError(AMQPError):
    code, name, hard, http_status = 506, "RESOURCE_ERROR", True, 503


class NotAllowed(AMQPError):
    code, name, hard, http_status = 530, "NOT_ALLOWED", True, 403


class NotImplementedFault(AMQPError):
    code, name, hard, http_status = 540, "NOT_IMPLEMENTED", True, 501


class InternalError(AMQPError):
    code, name, hard, http_status = 541, "INTERNAL_ERROR", True, 500
