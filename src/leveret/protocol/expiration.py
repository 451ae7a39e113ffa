"""When a message expires, as its publisher says it; what cannot be read so is refused with RabbitMQ's text."""

from leveret.errors import PreconditionFailed
from leveret.terms import quoted

# The time to live of a message that goes nowhere.
PAST = -2
EXPIRATION_MAX_MS = 315360000000


def parse_expiration(expiration: str) -> int:
    """A time to live in ms; what is not one is refused with RabbitMQ's text."""
    digits = expiration[1:] if expiration[:1] in ("+", "-") else expiration
    count = len(digits) - len(digits.lstrip("0123456789"))
    if not count:
        raise PreconditionFailed(f"invalid expiration '{expiration}': no_integer")
    if count < len(digits):
        raise PreconditionFailed(f"invalid expiration '{expiration}': {{leftover_string,{quoted(digits[count:])}}}")
    value = int(expiration)
    if value < 0:
        raise PreconditionFailed(f"invalid expiration '{expiration}': {{value_negative,{value}}}")
    if value > EXPIRATION_MAX_MS:
        raise PreconditionFailed(f"invalid expiration '{expiration}': {{value_too_large,{value}}}")
    return value


def ttl_until(expiration: str, now: int) -> int:
    """A time to live in ms, from the Unix time in seconds at which it ends; PAST if that is over."""
    if not expiration.isascii() or not expiration.isdigit():
        raise PreconditionFailed(f"invalid expiration '{expiration}': no_integer")
    ttl_ms = int(expiration) * 1000 - now
    return min(ttl_ms, EXPIRATION_MAX_MS) if ttl_ms > 0 else PAST
