"""Who decides a login: the broker's own users, at once or in a thread if that takes long."""

import asyncio

from leveret.auth.slow_check import SlowCheck
from leveret.broker.broker import Broker
from leveret.broker.login import Login, authenticate_here
from leveret.broker.password import is_slow


class LoginChain:
    """What a broker's logins go through; `Broker.authenticate` is set to it."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self.slow_check = SlowCheck(loop)
        broker.authenticate = self.authenticate

    def authenticate(self, login: Login) -> None:
        """Decide a login, now or later."""
        user = self._broker.users.get(login.name)
        if is_slow(user.hashing if user is not None else self._broker.settings.password_hashing):
            self.slow_check.decide(login, user)
        else:
            authenticate_here(login, self._broker)

    def close(self) -> None:
        self.slow_check.close()
