"""RabbitMQ's definitions file: a JSON object with a list for each kind of thing."""

from pathlib import Path

import msgspec

from leveret.definitions.item import Facts

# What files begin with that rabbitmqctl writes with --format erlang.
ERLANG_TERM = b"\x83"


class BadFile(Exception):
    """A file that cannot be imported; the text says why, for each thing that is wrong."""


def read_file(path: str) -> Facts:
    """The definitions in a JSON file, or BadFile."""
    try:
        return parse(Path(path).read_bytes())
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error.strerror}") from None
    except BadFile as error:
        raise BadFile(f"{path} is no definitions file: {error}") from None


def parse(data: bytes) -> Facts:
    """The definitions in a JSON text, or BadFile."""
    if data.startswith(ERLANG_TERM):
        raise BadFile("it is in Erlang's own format, not JSON: export it with --format json")
    try:
        found = msgspec.json.decode(data) if data.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadFile("failed_to_parse_json") from None
    if not isinstance(found, dict):
        raise BadFile("not an object")
    return found


def title_of(entry: object) -> str:
    """What an entry of a file is about, to be put behind the name of its section."""
    if not isinstance(entry, dict):
        return ""
    name = entry.get("name") or entry.get("user") or entry.get("source")
    vhost = entry.get("vhost")
    return f" ({name}{f' in {vhost}' if vhost else ''})" if name else ""
