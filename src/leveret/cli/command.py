"""What commands of leveretctl are made of: arguments, options, results, and the requests that most of them are."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from leveret.cli.api import Api, Failed, part
from leveret.cli.formats import Rows

USAGE, DATA, NO_USER, UNAVAILABLE, SOFTWARE, TEMPORARY = 64, 65, 67, 69, 70, 75
YEAR_S = 365 * 86400.0
# What files begin with that rabbitmqctl writes with --format erlang.
ERLANG_TERM = b"\x83"


class Bad(Exception):
    """A command that cannot be done; `status` is what to exit with, `details` are told where JSON is wanted."""

    def __init__(self, text: str, status: int = USAGE, details: dict[str, object] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.details = details


class Options:
    """What was given with a dash."""

    def __init__(self, vhost: str = "/", flags: dict[str, str] | None = None) -> None:
        self.vhost = vhost
        self.flags = flags or {}

    @property
    def timeout_s(self) -> float:
        """How long to wait for an answer; RabbitMQ: `infinity` is as long as it takes."""
        given = self.flags.get("timeout", "60")
        try:
            return YEAR_S if given == "infinity" else float(given)
        except ValueError:
            raise Bad(f"timeout must be a number of seconds, not {given}") from None

    @property
    def in_vhost(self) -> str:
        return part(self.vhost)


class Table:
    """Rows and the columns to show."""

    def __init__(self, rows: Rows, columns: Sequence[str]) -> None:
        self.rows = rows
        self.columns = columns


Result = Table | dict[str, object] | str | None
Do = Callable[[Api, Options, list[str]], Result]


class Command:
    """One command: how many arguments it takes at least and at most (None: any), and what it says before it is done."""

    def __init__(self, do: Do, usage: str = "", banner: str = "", least: int = 0, most: int | None = 0) -> None:
        self.do = do
        self.usage = usage
        self.banner = banner
        self.least = least
        self.most = most


# What is set and cleared


def putting(path: str, body: Callable[[Options, list[str]], object] | None = None) -> Do:
    """A PUT to a path with {vhost} and {0}, {1}… for arguments."""

    def do(api: Api, options: Options, given: list[str]) -> Result:
        api.put(filled(path, options, given), {} if body is None else body(options, given))
        return None

    return do


def deleting(path: str, missing: str = "", status: int = UNAVAILABLE) -> Do:
    """A DELETE; `missing` is said, and `status` the exit code, if there is nothing to delete."""

    def do(api: Api, options: Options, given: list[str]) -> Result:
        try:
            api.delete(filled(path, options, given))
        except Failed as error:
            if error.status == 404 and missing:
                raise Bad(missing.format(*given), status) from None
            raise
        return None

    return do


def filled(path: str, options: Options, given: list[str]) -> str:
    return path.format(*(part(one) for one in given), vhost=options.in_vhost)


def parsed(text: str) -> object:
    """An argument that must be JSON."""
    try:
        return json.loads(text)
    except ValueError:
        raise Bad(f"JSON decoding error: {text}", DATA) from None


def parsed_object(text: str) -> dict[str, object]:
    """An argument that must be a JSON object."""
    found = parsed(text)
    if not isinstance(found, dict):
        raise Bad(f"not a JSON object: {text}", DATA)
    return found


def definitions_in(file: str) -> object:
    """What a file of definitions says, or standard input if it is called `-`."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Bad(f"cannot read {file}: {error.strerror}", DATA) from None
    if data.startswith(ERLANG_TERM):
        raise Bad(f"{file} is in Erlang's own format, not JSON: export it with --format json", DATA)
    try:
        return json.loads(data)
    except ValueError as error:
        raise Bad(f"{file} is not JSON: {error}", DATA) from None


def exists(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except Failed as error:
        if error.status == 404:
            return False
        raise
    return True


def compact(value: object, ordered: bool = False) -> str:
    """JSON as RabbitMQ's tools write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=ordered)
