"""The broker: virtual hosts, users, the work list and the epoch. Everything below hangs from here."""

from leveret.broker.access import User, hash_password
from leveret.broker.queue import Queue
from leveret.broker.settings import Settings
from leveret.broker.timers import Timers
from leveret.broker.vhost import VirtualHost
from leveret.broker.work import Work
from leveret.errors import NotAllowed


class Broker:
    """The whole model.

    `replies` are the hidden queues of direct reply-to, by name. `epoch` is raised by every change that could change a route
    or a right; who remembers either compares it first.
    """

    __slots__ = ("epoch", "replies", "settings", "timers", "users", "vhosts", "work")

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.epoch = 1
        self.work = Work()
        self.timers = Timers()
        self.replies: dict[str, Queue] = {}
        self.vhosts: dict[str, VirtualHost] = {}
        self.users: dict[str, User] = {}

    def changed(self) -> None:
        """Drop every remembered route and right."""
        self.epoch += 1

    def add_vhost(self, name: str) -> VirtualHost:
        vhost = VirtualHost(name, self)
        self.vhosts[name] = vhost
        return vhost

    def add_user(self, name: str, password: str, tags: tuple[str, ...] = (), loopback_only: bool = False) -> User:
        user = User(name, hash_password(password.encode()), tags, loopback_only)
        self.users[name] = user
        return user

    def vhost(self, name: str, user: User) -> VirtualHost:
        """The virtual host of that name as `user` may use it, or NotAllowed."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise NotAllowed(f"vhost {name} not found")
        return vhost


def default_broker(settings: Settings | None = None) -> Broker:
    """A broker as it is on first start: vhost `/` and guest, who may log in from this machine."""
    broker = Broker(settings)
    broker.add_vhost("/")
    broker.add_user("guest", "guest", ("administrator",), loopback_only=True)
    return broker
