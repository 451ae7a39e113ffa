"""What can go wrong between a client and the broker, one class for each AMQP reply code that closes something.

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

    @property
    def reply_text(self) -> str:
        """The text for a close method, cut as RabbitMQ cuts it to fit a short string."""
        text = f"{self.name} - {self}" if self.args else self.name
        # Names in a basic.publish may be any octets; a close must be text.
        encoded = text.encode(errors="replace")
        if len(encoded) <= REPLY_TEXT_MAX_BYTES:
            return encoded.decode()
        return encoded[: REPLY_TEXT_MAX_BYTES - 3].decode(errors="ignore") + "..."


class ConnectionForced(AMQPError):
    code, name, hard = 320, "CONNECTION_FORCED", True


class AccessRefused(AMQPError):
    code, name, hard = 403, "ACCESS_REFUSED", False


class NotFound(AMQPError):
    code, name, hard = 404, "NOT_FOUND", False


class ResourceLocked(AMQPError):
    code, name, hard = 405, "RESOURCE_LOCKED", False


class PreconditionFailed(AMQPError):
    code, name, hard = 406, "PRECONDITION_FAILED", False


class FrameError(AMQPError):
    code, name, hard = 501, "FRAME_ERROR", True


class MalformedString(FrameError):
    """RabbitMQ: a short string that is not UTF-8 is blamed on no method."""


class SyntaxFault(AMQPError):
    code, name, hard = 502, "SYNTAX_ERROR", True


class CommandInvalid(AMQPError):
    code, name, hard = 503, "COMMAND_INVALID", True


class ChannelError(AMQPError):
    code, name, hard = 504, "CHANNEL_ERROR", True


class UnexpectedFrame(AMQPError):
    code, name, hard = 505, "UNEXPECTED_FRAME", True


class ResourceError(AMQPError):
    code, name, hard = 506, "RESOURCE_ERROR", True


class NotAllowed(AMQPError):
    code, name, hard = 530, "NOT_ALLOWED", True


class NotImplementedFault(AMQPError):
    code, name, hard = 540, "NOT_IMPLEMENTED", True


class InternalError(AMQPError):
    code, name, hard = 541, "INTERNAL_ERROR", True
