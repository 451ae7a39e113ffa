"""The table of all routes: method, path, who may, and what is done.

(1) A part in braces is named in `Request.path`, decoded: `%2F` is a slash in a name.
(2) Who may is one of the levels below; `tests/management/http/test_login.py` tries each with each kind of user.
(3) HEAD is answered where GET is, OPTIONS everywhere.
"""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from leveret.management.http.answer import Answer
from leveret.management.http.json import Json

if TYPE_CHECKING:
    from leveret.management.http.request import Request

# Who may ask. The last three are also for administrators, whatever their rights.
ANYONE = "anyone"  # without a login
USER = "user"  # any tag of management
MONITOR = "monitor"
POLICYMAKER = "policymaker"  # may enter the path's vhost
GLOBAL_POLICYMAKER = "global policymaker"
ADMINISTRATOR = "administrator"
VHOST = "vhost"  # may enter the path's vhost
VISIBLE = "visible"  # may enter the path's vhost, or look at all

PART = re.compile(r"\{(\w+)\}")
SLASH = "_slash"

Result = Answer | Json
Handler = Callable[["Request"], Result | Awaitable[Result]]


class Route:
    """One row of the table. `about` is a line for the API's own description."""

    __slots__ = ("about", "handler", "level", "method", "path")

    def __init__(self, method: str, path: str, level: str, handler: Handler) -> None:
        self.method = method
        self.path = path
        self.level = level
        self.handler = handler
        self.about = (handler.__doc__ or "").partition("\n")[0]


def patterns_of(path: str) -> list[str]:
    """A route's path for aiohttp, so that it takes braces in names and a slash at the end too."""
    if "{" not in path:
        return [path, f"{path}/"]
    return [PART.sub(r"{\1:[^/]+}", path) + f"{{{SLASH}:/?}}"]


def parts_of(pattern: str, raw_path: str) -> dict[str, str]:
    """The named parts of a path, decoded to any octets: aiohttp leaves those quoted that are not UTF-8."""
    pairs = zip(pattern.split("/"), raw_path.split("/"), strict=False)
    found = {name[1:-1]: unquote(value, errors="surrogateescape") for name, value in pairs if name.startswith("{")}
    return {name: exchange_name(name, value) for name, value in found.items()}


def exchange_name(part: str, value: str) -> str:
    """A name as the model has it: in paths the default exchange is called amq.default."""
    return "" if value == "amq.default" and part in ("exchange", "source", "destination") else value
