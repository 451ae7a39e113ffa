"""Users, with their passwords, tags and limits."""

from typing import Any

import msgspec

from leveret.broker.access import User
from leveret.broker.broker import Broker
from leveret.broker.command import NOBODY
from leveret.broker.password import SHA256
from leveret.broker.tenant_limit import USER_LIMITS, check_limits
from leveret.definitions.definition import Definition
from leveret.definitions.item import Facts, Item, tags_of
from leveret.errors import PreconditionFailed

# RabbitMQ: may log in only from the machine itself, whoever makes it.
LOCAL_USER = "guest"


class UserDefinition(Definition, frozen=True):
    name: str
    password: str = ""
    password_hash: str = ""
    hashing_algorithm: str = SHA256
    tags: list[str] = msgspec.field(default_factory=list)
    limits: dict[str, int] = msgspec.field(default_factory=dict)
    loopback_only: bool = False

    @property
    def title(self) -> str:
        return self.name

    def make(self, broker: Broker) -> None:
        tags = tuple(self.tags)
        if self.password:
            user = broker.add_user(self.name, self.password, tags, self.loopback_only)
        else:
            user = broker.add_hashed_user(self.name, self.password_hash, self.hashing_algorithm, tags, self.loopback_only)
        if user.loopback_only != self.loopback_only:
            # One that was there before keeps it otherwise.
            broker.set_loopback_only(self.name, self.loopback_only)
        broker.set_user_limits(self.name, self.limits)


def facts(user: User) -> Facts:
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing,
        "tags": list(user.tags),
        "limits": user.limits,
    }


def read(broker: Broker, item: Item) -> None:
    put_user(broker, item.name("name"), item, item.version)


def put_user(broker: Broker, name: str, found: Facts | Item, version: str = "", by: str = NOBODY) -> None:
    """Make or change a user as RabbitMQ does. Without a password and a hash it can no longer log in with one.

    Rights and limits that are not named stay; `permissions`, by vhost, are for a new user only.
    """
    if "tags" in found:
        tags = tags_of(found.get("tags"))
    elif "administrator" in found:
        tags = ("administrator",) if found.get("administrator") in (True, "true") else ()
    else:
        raise PreconditionFailed("tags_not_present")
    if "password" in found and "password_hash" in found:
        raise PreconditionFailed("both_password_and_password_hash_are_provided")
    limits = found.get("limits") or {}
    check_limits(limits, USER_LIMITS, "user-limits")
    rights = {} if name in broker.users else _permissions(broker, found.get("permissions") or {})
    if name in broker.users and "password" not in found and "password_hash" not in found:
        # RabbitMQ: this clears the password and sets tags, and looks at nothing else.
        limits = {}
    local = name == LOCAL_USER
    if "password_hash" in found:
        hashing = str(found.get("hashing_algorithm") or _hashing_of(version))
        broker.add_hashed_user(name, str(found.get("password_hash")), hashing, tags, local, by)
    else:
        broker.add_user(name, str(found.get("password") or ""), tags, local, by)
    if limits:
        broker.set_user_limits(name, {**broker.users[name].limits, **limits}, by)
    for vhost, (configure, write, read) in rights.items():
        broker.set_permissions(name, vhost, configure, write, read, by)


def _permissions(broker: Broker, found: Any) -> dict[str, list[str]]:
    """A new user's rights by vhost, each of which must be there."""
    if not isinstance(found, dict):
        raise PreconditionFailed("permissions must be an object")
    granted = {}
    for vhost, patterns in found.items():
        item = Item(patterns, vhost)
        granted[item.vhost(broker).name] = item.texts("configure", "write", "read")
    return granted


def _hashing_of(version: str) -> str:
    """RabbitMQ: until 3.6 there was one way to hash passwords, and files did not name it."""
    old = version.startswith(("1.", "2.", "3.0", "3.1.", "3.2.", "3.3.", "3.4.", "3.5."))
    return "rabbit_password_hashing_md5" if old else SHA256


def restore(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    tags = tuple(row["tags"])
    user = broker.add_hashed_user(name, row["password_hash"], row["hashing"], tags, row["loopback_only"])
    user.limits = row["limits"]
