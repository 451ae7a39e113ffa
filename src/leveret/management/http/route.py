"""The table of all routes: method, path, who may, and what is done.

(1) A part in braces is named in `Request.path`, decoded: `%2F` is a slash in a name.
(2) Who may is one of the levels below; `tests/management/http/test_login.py` tries each with each kind of user.
(3) HEAD is answered where GET is, OPTIONS everywhere.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from leveret.management.http.answer import Answer

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

Result = Answer | dict[str, Any] | list[Any]
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
