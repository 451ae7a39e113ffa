"""Names that clients give to exchanges and queues: what is taken out of them, and which are refused."""

from leveret.errors import AccessRefused, PreconditionFailed
from leveret.wire.values import Table, kind_of


def stripped(name: str) -> str:
    # RabbitMQ: line ends are taken out of names.
    return name.replace("\n", "").replace("\r", "")


def check_not_default(name: str) -> None:
    if not name:
        raise AccessRefused("operation not permitted on the default exchange")


def check_unreserved(kind: str, name: str) -> None:
    if name.startswith("amq."):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_name_argument(arguments: Table, key: str, title: str) -> None:
    if key in arguments and not isinstance(arguments[key], str):
        raise PreconditionFailed(f"invalid type '{kind_of(arguments[key])}' for arg '{key}' in {title}")
