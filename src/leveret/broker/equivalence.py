"""Whether a second declaration says the same as the first. Texts are RabbitMQ's."""

from leveret.errors import PreconditionFailed
from leveret.wire.values import Table, kind_of, same_value


def check_same(key: str, title: str, received: object, current: object) -> None:
    """Refuse a second declaration that differs in a field."""
    if received != current:
        raise PreconditionFailed(
            f"inequivalent arg '{key}' for {title}: received '{plain(received)}' but current is '{plain(current)}'"
        )


def check_same_argument(key: str, title: str, received: Table, current: Table) -> None:
    """Refuse a second declaration that differs in an argument."""
    if key in received and key in current:
        if not same_value(received[key], current[key]):
            raise PreconditionFailed(
                f"inequivalent arg '{key}' for {title}: received '{plain(received[key])}' "
                f"but current is '{plain(current[key])}'"
            )
    elif key == "x-queue-type" and "classic" in (received.get(key), current.get(key)):
        return
    elif key in received or key in current:
        raise PreconditionFailed(
            f"inequivalent arg '{key}' for {title}: received {described(received, key)} "
            f"but current is {described(current, key)}"
        )


def described(arguments: Table, key: str) -> str:
    if key not in arguments:
        return "none"
    return f"the value '{plain(arguments[key])}' of type '{kind_of(arguments[key])}'"


def plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
