"""The broker: virtual hosts, users and their rights, the work list and the epoch. Everything below hangs from here."""

from collections.abc import Callable
from typing import Any

from leveret.broker.access import User
from leveret.broker.churn import Churn
from leveret.broker.command import (
    NOBODY,
    AddToken,
    AddUser,
    AddVhost,
    ClearGlobalParameter,
    ClearPermissions,
    ClearTopicPermissions,
    Command,
    DeleteQueue,
    DeleteToken,
    DeleteUser,
    DeleteVhost,
    Proposal,
    SetGlobalParameter,
    SetLoopbackOnly,
    SetPermissions,
    SetTopicPermissions,
    SetUserLimits,
)
from leveret.broker.counters import Counters
from leveret.broker.events import Events
from leveret.broker.login import Login, authenticate_here
from leveret.broker.login_guard import LoginGuard
from leveret.broker.node_limit import Connections, NodeLimits, check_pattern_length
from leveret.broker.password import check_password_hash, check_password_length, hash_password
from leveret.broker.patterns import BadPattern, Pattern
from leveret.broker.queue import Queue
from leveret.broker.rights import PERMISSIONS, Rights
from leveret.broker.settings import Settings
from leveret.broker.storage import Storage
from leveret.broker.tenant_limit import USER_LIMITS, check_connection_limits, check_limits
from leveret.broker.timers import Timers
from leveret.broker.token import Token, Tokens
from leveret.broker.vhost import VirtualHost
from leveret.broker.work import Work
from leveret.errors import NotAllowed, NotFound, PreconditionFailed

CLUSTER_NAME = "cluster_name"


class Broker:
    """The whole model.

    `replies` are the hidden queues of direct reply-to, by name. `epoch` is raised by every change that could change a route
    or a right; who remembers either compares it first. `parameters` are those of the whole broker.

    While `throttled`, whoever publishes is stopped: `alarm` says what runs low, "" if nothing does, and `flow` that storage
    is behind. `on_shovel` is called with vhost and name when a shovel's parameter is set, or is there no longer.

    `on_command` is called with each change of what is defined, before it is made. One that `follows` the commands of another
    broker deletes nothing by itself. In a cluster `propose` has all nodes agree on a command, and `on_unneeded` is told of a
    queue that may go; both are None for a broker that is alone.
    """

    __slots__ = (
        "alarm",
        "authenticate",
        "churn",
        "connections",
        "counters",
        "epoch",
        "events",
        "flow",
        "follows",
        "guard",
        "on_command",
        "on_shovel",
        "on_unneeded",
        "parameters",
        "propose",
        "replies",
        "reserved_size",
        "settings",
        "storage",
        "throttled",
        "timers",
        "tokens",
        "users",
        "vhosts",
        "work",
    )

    def __init__(self, settings: Settings | None = None, storage: Storage | None = None) -> None:
        self.settings = settings or Settings()
        self.storage = storage or Storage()
        self.epoch = 1
        # Of vhosts that are gone.
        self.counters = Counters()
        self.churn = Churn(self.settings.track_auth_attempt_source)
        self.connections = Connections()
        self.events = Events()
        self.alarm = ""
        self.flow = False
        self.throttled = False
        self.work = Work()
        self.work.storage = self.storage
        self.timers = Timers()
        self.replies: dict[str, Queue] = {}
        self.vhosts: dict[str, VirtualHost] = {}
        self.users: dict[str, User] = {}
        self.tokens = Tokens()
        self.parameters: dict[str, Any] = {}
        self.on_shovel: Callable[[str, str], None] | None = None
        self.on_command: Callable[[Command], None] | None = None
        self.follows = False
        # Decides logins; whoever knows more than the broker's own users puts itself here.
        self.authenticate: Callable[[Login], None] = self._authenticate
        self.guard = LoginGuard(self.settings.login_failures)
        self.propose: Callable[[Command, object], Proposal] | None = None
        self.on_unneeded: Callable[[DeleteQueue], None] | None = None
        # Room for large bodies that are still to come.
        self.reserved_size = 0

    def record(self, command: Command) -> None:
        """Say what is about to be changed; nothing refuses it any more. In a cluster it is Proposed, and made later."""
        if self.on_command is not None:
            self.on_command(command)

    def changed(self) -> None:
        """Drop every remembered route and right."""
        self.epoch += 1

    def throttle(self, alarm: str, flow: bool) -> None:
        """Stop whoever publishes next, for this alarm or because storage is behind; nobody for "" and False.

        Those that are stopped already are the caller's to tell.
        """
        throttled = alarm != "" or flow
        if throttled and not self.throttled:
            # Who remembers a route asks nobody; whoever looks for one is asked whether it may publish.
            self.changed()
        self.alarm = alarm
        self.flow = flow
        self.throttled = throttled

    # Virtual hosts

    def add_vhost(self, name: str, by: str = NOBODY) -> VirtualHost:
        """Make a vhost, or find it."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            self.record(AddVhost(name, by=by, at=self.now))
            vhost = self.vhosts[name] = VirtualHost(name, self)
            vhost.store()
            self.events.add("vhost.created", name, name)
        return vhost

    def delete_vhost(self, name: str, by: str = NOBODY) -> None:
        """Delete a vhost with everything in it, and end the connections to it."""
        vhost = self.find_vhost(name)
        self.record(DeleteVhost(name, by=by, at=self.now))
        del self.vhosts[name]
        for user in self.users.values():
            rights = user.rights.pop(name, None)
            if rights is not None:
                rights.revoke()
        self.changed()
        vhost.close()
        # After its channels have added theirs.
        self.counters.add(vhost.counters)
        self.storage.remove_vhost(name)
        self.events.add("vhost.deleted", name, name)

    def find_vhost(self, name: str) -> VirtualHost:
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise NotFound(f"vhost '{name}' not found")
        return vhost

    def vhost(self, name: str, user: User, address: str = "") -> VirtualHost:
        """The virtual host of that name for one more connection of `user` from an address, or NotAllowed."""
        self.connections.check(self.settings.limits, address)
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise NotAllowed(f"vhost {name} not found")
        refused = f"access to vhost '{name}' refused for user '{user.name}'"
        check_connection_limits(vhost, user, refused)
        if not user.rights_in(name).granted:
            raise NotAllowed(refused)
        return vhost

    # Users

    def add_user(
        self, name: str, password: str, tags: tuple[str, ...] = (), loopback_only: bool = False, by: str = NOBODY
    ) -> User:
        """Make a user, or give one that is there this password and these tags."""
        check_password_length(password, self.settings.password_length_min)
        user = self.users.get(name)
        if user is not None and user.tags == tags and user.has_password(password.encode()):
            return user
        hashing = self.settings.password_hashing
        password_hash = hash_password(password.encode(), hashing=hashing) if password else ""
        return self.add_hashed_user(name, password_hash, hashing, tags, loopback_only, by)

    def _authenticate(self, login: Login) -> None:
        authenticate_here(login, self)

    def add_hashed_user(
        self,
        name: str,
        password_hash: str,
        hashing: str,
        tags: tuple[str, ...] = (),
        loopback_only: bool = False,
        by: str = NOBODY,
    ) -> User:
        """The same with a password that is hashed already."""
        check_password_hash(password_hash, hashing)
        user = self.users.get(name)
        if user is not None and (user.password_hash, user.hashing, user.tags) == (password_hash, hashing, tags):
            return user
        self.record(AddUser(name, password_hash, hashing, tags, loopback_only, by=by, at=self.now))
        if user is None:
            user = self.users[name] = User(name, password_hash, tags, loopback_only, hashing)
            self.events.add("user.created", None, name)
        else:
            user.password_hash = password_hash
            user.hashing = hashing
            user.tags = tags
        self._store_user(user)
        return user

    def _store_user(self, user: User) -> None:
        facts = {
            "password_hash": user.password_hash,
            "hashing": user.hashing,
            "tags": user.tags,
            "limits": user.limits,
            "loopback_only": user.loopback_only,
        }
        self.storage.put("user", "", user.name, facts)

    def delete_user(self, name: str, by: str = NOBODY) -> None:
        """Delete a user, and end its connections."""
        user = self.find_user(name)
        self.record(DeleteUser(name, by=by, at=self.now))
        del self.users[name]
        self.storage.remove("user", "", name)
        for rights in user.rights.values():
            rights.revoke()
            self.storage.remove("permission", rights.vhost_name, name)
        for token in self.tokens.of_user(name):
            self._remove_token(token)
        self.changed()
        self.events.add("user.deleted", None, name)
        for client in list(user.clients):
            client.shut(f"user '{name}' is deleted")

    def find_user(self, name: str) -> User:
        user = self.users.get(name)
        if user is None:
            raise NotFound(f"user '{name}' not found")
        return user

    def set_loopback_only(self, name: str, loopback_only: bool, by: str = NOBODY) -> None:
        """Say whether a user may log in only from this machine; of one that is there already nothing else says it."""
        user = self.find_user(name)
        if user.loopback_only == loopback_only:
            return
        self.record(SetLoopbackOnly(name, loopback_only, by=by, at=self.now))
        user.loopback_only = loopback_only
        self._store_user(user)

    def set_user_limits(self, name: str, limits: dict[str, int], by: str = NOBODY) -> None:
        """Bound a user's connections and channels; what is there already stays."""
        check_limits(limits, USER_LIMITS, "user-limits")
        user = self.find_user(name)
        if user.limits == limits:
            return
        self.record(SetUserLimits(name, dict(limits), by=by, at=self.now))
        user.limits = dict(limits)
        self._store_user(user)

    def add_token(self, token: Token, by: str = NOBODY) -> None:
        """Let a user in by a key, of which only the digest is known."""
        self.find_user(token.user_name)
        self.tokens.check(token.scopes)
        command = AddToken(
            token.user_name, token.id, token.digest, token.scopes, token.created_at, token.expires_at, by=by, at=self.now
        )
        self.record(command)
        self.tokens.add(token)
        facts = {
            "user": token.user_name,
            "digest": token.digest,
            "scopes": token.scopes,
            "created_at": token.created_at,
            "expires_at": token.expires_at,
        }
        self.storage.put("token", "", token.id, facts)

    def delete_token(self, id: str, by: str = NOBODY) -> None:
        """Let nobody in by it any more."""
        token = self.tokens.by_id.get(id)
        if token is None:
            raise NotFound(f"token '{id}' not found")
        self.record(DeleteToken(id, by=by, at=self.now))
        self._remove_token(token)

    def _remove_token(self, token: Token) -> None:
        self.tokens.remove(token)
        self.storage.remove("token", "", token.id)

    # Rights

    def set_permissions(
        self, user_name: str, vhost_name: str, configure: str, write: str, read: str, by: str = NOBODY
    ) -> None:
        """Let a user into a vhost and do there what these patterns allow; what they do not is ended."""
        rights = self._rights(user_name, vhost_name)
        check_patterns((configure, write, read), self.settings.limits)
        if rights.granted and [rights.pattern(permission) for permission in PERMISSIONS] == [configure, write, read]:
            return
        self.record(SetPermissions(user_name, vhost_name, configure, write, read, by=by, at=self.now))
        rights.grant(configure, write, read)
        self._rights_changed(user_name, vhost_name)

    def clear_permissions(self, user_name: str, vhost_name: str, by: str = NOBODY) -> None:
        """Allow a user nothing in a vhost any more."""
        rights = self._rights(user_name, vhost_name)
        if not rights.granted:
            return
        self.record(ClearPermissions(user_name, vhost_name, by=by, at=self.now))
        rights.revoke()
        self._rights_changed(user_name, vhost_name)

    def set_topic_permissions(
        self, user_name: str, vhost_name: str, exchange: str, write: str, read: str, by: str = NOBODY
    ) -> None:
        """Allow a user only these routing keys on a topic exchange."""
        rights = self._rights(user_name, vhost_name)
        check_patterns((write, read), self.settings.limits)
        if rights.topics.get(exchange) == (write, read):
            return
        self.record(SetTopicPermissions(user_name, vhost_name, exchange, write, read, by=by, at=self.now))
        rights.grant_topics(exchange, write, read)
        self._rights_changed(user_name, vhost_name)

    def clear_topic_permissions(
        self, user_name: str, vhost_name: str, exchange: str | None = None, by: str = NOBODY
    ) -> None:
        """Allow a user all routing keys again, on one topic exchange or on all."""
        rights = self._rights(user_name, vhost_name)
        if not rights.topics or exchange not in (None, *rights.topics):
            return
        self.record(ClearTopicPermissions(user_name, vhost_name, exchange, by=by, at=self.now))
        for name in list(rights.topics) if exchange is None else [exchange]:
            rights.revoke_topics(name)
        self._rights_changed(user_name, vhost_name)

    def _rights(self, user_name: str, vhost_name: str) -> Rights:
        user = self.find_user(user_name)
        self.find_vhost(vhost_name)
        return user.rights_in(vhost_name)

    def set_parameter(self, name: str, value: Any, by: str = NOBODY) -> None:
        """Set a parameter of the whole broker."""
        if name in self.parameters and self.parameters[name] == value:
            return
        self.record(SetGlobalParameter(name, value, by=by, at=self.now))
        self.parameters[name] = value
        self.storage.put("global_parameter", "", name, {"value": value})

    def clear_parameter(self, name: str, by: str = NOBODY) -> None:
        if name not in self.parameters:
            raise NotFound(f"global parameter '{name}' not found")
        self.record(ClearGlobalParameter(name, by=by, at=self.now))
        del self.parameters[name]
        self.storage.remove("global_parameter", "", name)

    @property
    def now(self) -> int:
        """The time of this pass (ms)."""
        return self.work.budget.now

    @property
    def clustered(self) -> bool:
        """Whether all that is defined is defined on several nodes."""
        return self.propose is not None

    @property
    def cluster_name(self) -> str:
        return str(self.parameters.get(CLUSTER_NAME) or self.settings.cluster_name or self.settings.node_name)

    def shovel_changed(self, vhost_name: str, name: str) -> None:
        if self.on_shovel is not None:
            self.on_shovel(vhost_name, name)

    def shovel_count(self) -> int:
        return sum(len(vhost.parameters.values) for vhost in self.vhosts.values())

    def entry_refusal(self, user: User, vhost_name: str) -> str | None:
        """Why this user may not enter a vhost; None if it may."""
        if vhost_name in self.vhosts and user.rights_in(vhost_name).granted:
            return None
        return f'user "{user.name}" may not connect to vhost "{vhost_name}"'

    def _store_rights(self, rights: Rights) -> None:
        if not rights.granted and not rights.topics:
            self.storage.remove("permission", rights.vhost_name, rights.user_name)
            return
        facts = {
            "granted": rights.granted,
            "patterns": [rights.pattern(permission) for permission in PERMISSIONS],
            "topics": rights.topics,
        }
        self.storage.put("permission", rights.vhost_name, rights.user_name, facts)

    def _rights_changed(self, user_name: str, vhost_name: str) -> None:
        self._store_rights(self.users[user_name].rights_in(vhost_name))
        self.events.add("permission.changed", vhost_name, user_name)
        self.changed()
        for client in list(self.users[user_name].clients):
            if client.vhost.name == vhost_name:
                client.recheck()


def check_patterns(patterns: tuple[str, ...], limits: NodeLimits) -> None:
    """Refuse what is no regular expression, or too long."""
    for text in patterns:
        try:
            check_pattern_length(limits, text)
            Pattern(text)
        except BadPattern as error:
            raise PreconditionFailed(f"invalid regular expression: {error}") from None


def default_broker(settings: Settings | None = None) -> Broker:
    """A broker as it is on first start: vhost `/` and guest, who may log in from this machine and do everything."""
    broker = Broker(settings)
    broker.add_vhost("/")
    add_guest(broker)
    return broker


def add_guest(broker: Broker) -> None:
    broker.add_user("guest", "guest", ("administrator",), loopback_only=True)
    broker.set_permissions("guest", "/", ".*", ".*", ".*")
