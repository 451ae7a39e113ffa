"""Who decides a login: the broker's own users, at once or in a thread if that takes long; of a token OAuth 2."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

from leveret.auth.http_backend import HttpBackend
from leveret.auth.oauth2 import BadToken, OAuth2, is_token
from leveret.auth.scope import TokenUser
from leveret.auth.slow_check import SlowCheck
from leveret.broker.access import User
from leveret.broker.broker import Broker
from leveret.broker.login import Login, authenticate_here
from leveret.broker.password import is_slow

# How often it is looked whose token has expired, and how long one is looked at that nobody connects with.
LOOK_S = 0.25
UNUSED_S = 60.0

log = logging.getLogger("leveret.auth")


class LoginChain:
    """What a broker's logins go through; `Broker.authenticate` is set to it."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        oauth2: OAuth2 | None = None,
        http: HttpBackend | None = None,
        now: Callable[[], int] = lambda: 0,
        do: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """`now` is the time in ms; `do` calls what changes the model."""
        self._broker = broker
        self._loop = loop
        self._oauth2 = oauth2
        self._http = http
        self._now = now
        self._do = do or (lambda function: function())
        self._tasks: set[asyncio.Task[None]] = set()
        # With the time at which they came.
        self._token_users: dict[TokenUser, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.slow_check = SlowCheck(loop)
        broker.authenticate = self.authenticate

    def authenticate(self, login: Login) -> None:
        """Decide a login, now or later."""
        if self._oauth2 is not None and is_token(login.password):
            self._begin(self._check_token(self._oauth2, login))
            return
        user = self._broker.users.get(login.name)
        if self._http is not None and user is not None and not user.password_hash:
            self._begin(self._ask(self._http, login, user))
        elif is_slow(user.hashing if user is not None else self._broker.settings.password_hashing):
            self.slow_check.decide(login, user)
        else:
            authenticate_here(login, self._broker)

    def _begin(self, deciding: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(deciding)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, http: HttpBackend, login: Login, user: User) -> None:
        try:
            allowed = await http.allows(login.name, login.password)
        except Exception:
            log.exception("a login could not be asked for")
            allowed = False
        # The user may have been deleted meanwhile.
        if allowed and self._broker.users.get(login.name) is user:
            login.accept(user)
        else:
            login.refuse()

    async def _check_token(self, oauth2: OAuth2, login: Login) -> None:
        try:
            user = await oauth2.user(login.password)
        except BadToken as error:
            login.refuse(f"- token refused: {error}")
            return
        except Exception:
            log.exception("a token could not be checked")
            login.refuse()
            return
        # Before whoever waits is told: it must not be used without being looked after.
        self._token_users[user] = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_S, self._look)
        login.name = login.name or user.name
        login.accept(user)

    def _look(self) -> None:
        """End the tokens that have expired."""
        now, time = self._now(), self._loop.time()
        for user, since in list(self._token_users.items()):
            if user.expires_at <= now:
                self._do(user.end)
                self._broker.changed()
                if not user.clients:
                    del self._token_users[user]
            elif not user.clients and time - since > UNUSED_S:
                del self._token_users[user]
        self._timer = self._loop.call_later(LOOK_S, self._look) if self._token_users else None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        self.slow_check.close()
