"""One login: who, with which password, from where; and what has come of it, at once or later.

(1) `begin` asks the guard, and then whoever decides (`Broker.authenticate`), who calls `accept` or `refuse`, once.
(2) What is decided later is told by `on_done`, which whoever waits has set; what is decided at once is there when `begin`
    returns. A login that nobody waits for any more may still be decided.
(3) The password is forgotten with the decision.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.broker.access import User, is_loopback

if TYPE_CHECKING:
    from leveret.broker.broker import Broker

# As RabbitMQ's log has it behind the user's name.
INVALID = "- invalid credentials"
LOCAL_ONLY = "can only connect via localhost"


class Login:
    """A name and a password from an address. `wait_ms` is how long it has to wait if it was refused unread."""

    __slots__ = ("_broker", "_now", "address", "done", "name", "on_done", "password", "refusal", "user", "wait_ms")

    user: User

    def __init__(self, broker: "Broker", name: str, password: bytes, address: str) -> None:
        self._broker = broker
        self._now = 0
        self.name = name
        self.password = password
        self.address = address
        self.on_done: Callable[[], None] | None = None
        self.done = False
        # Why not, for the log; "" for a login that has succeeded.
        self.refusal = ""
        self.wait_ms = 0

    def begin(self, now: int) -> None:
        """Have it decided, now or later."""
        self._now = now
        self.wait_ms = self._broker.guard.wait_ms(self.address, self.name, now)
        if self.wait_ms:
            self._end(f"- too many failed logins; the next one is looked at in {self.wait_ms} ms")
        elif not self.password:
            self.refuse()
        else:
            self._broker.authenticate(self)

    def accept(self, user: User) -> None:
        """The password is this user's."""
        self._broker.guard.count(self.address, self.name, True, self._now)
        self.user = user
        self._end(LOCAL_ONLY if user.loopback_only and not is_loopback(self.address) else "")

    def refuse(self, reason: str = INVALID) -> None:
        """It is nobody's, or not this one's."""
        self._broker.guard.count(self.address, self.name, False, self._now)
        self._end(reason)

    def _end(self, refusal: str) -> None:
        self.password = b""
        self.refusal = refusal
        self.done = True
        if self.on_done is not None:
            self.on_done()


def authenticate_here(login: Login, broker: "Broker") -> None:
    """Decide by the broker's own users, at once."""
    user = broker.users.get(login.name)
    if user is not None and user.has_password(login.password):
        login.accept(user)
    else:
        login.refuse()
