"""What comes as JSON and is to be kept or sent: it must fit AMQP, and be read again at the next start. And back.

(1) Names and routing keys have 255 octets at most, tables what fits a frame, and no more levels than AMQP's have here.
(2) Whatever else JSON brings has 64-bit integers and a bounded depth; it never had other numbers or half characters, which
    the parser refuses.
"""

from typing import Any

from leveret.errors import PreconditionFailed, SyntaxFault
from leveret.wire.values import Table, decode_table, encode_table

# Of names and routing keys on the wire.
SHORT_MAX = 255
# What a client could have sent in a frame.
TABLE_BYTES_MAX = 131_072
# More than a table may have: there is something around it.
DEPTH_MAX = 64
INTEGER_MIN = -(1 << 63)
INTEGER_MAX = (1 << 63) - 1


def checked_name(name: str, title: str) -> str:
    """A name that fits AMQP; RabbitMQ's words for one that does not."""
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > SHORT_MAX:
        raise PreconditionFailed(f"{title} should be less than {SHORT_MAX} bytes, actually was {size}")
    return name


def checked_table(found: dict[str, Any], title: str) -> Table:
    """A table that can be sent and stored."""
    try:
        encoded = encode_table(found)
        decode_table(encoded, 4, len(encoded))
    except (ValueError, RecursionError, SyntaxFault) as error:
        raise PreconditionFailed(f"{title} cannot be written as a table: {error}") from None
    if len(encoded) > TABLE_BYTES_MAX:
        raise PreconditionFailed(
            f"{title} cannot be written as a table: {len(encoded)} octets, {TABLE_BYTES_MAX} are possible"
        )
    return found


def check_values(found: Any, title: str) -> None:
    """Refuse what could not be read again, or not be counted with."""
    left = [(found, 0)]
    while left:
        value, depth = left.pop()
        if isinstance(value, dict | list):
            if depth >= DEPTH_MAX:
                raise PreconditionFailed(f"{title} is nested deeper than {DEPTH_MAX} levels")
            left += [(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value)]
        elif isinstance(value, int) and not INTEGER_MIN <= value <= INTEGER_MAX:
            raise PreconditionFailed(f"{title} has an integer of more than 64 bits")


def json_value(value: Any) -> Any:
    """A value of a field table as JSON has it."""
    if isinstance(value, dict):
        return {name: json_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, bool | str) or value is None:
        return value
    # Numbers remember how wide they were on the wire.
    return int(value) if isinstance(value, int) else float(value)
