"""What users may do in vhosts, and with which routing keys on topic exchanges."""

from collections.abc import Iterable, Iterator
from typing import Any

from leveret.broker.rights import Rights
from leveret.definitions.from_json import checked_name
from leveret.management.answers import Answer, bad_request, created, done, not_found
from leveret.management.api.users import the_user
from leveret.management.asking import Ask
from leveret.management.lists import chosen, listed
from leveret.management.routes import ADMINISTRATOR, Result, Route

Topic = tuple[Rights, str]


def permission_view(rights: Rights) -> dict[str, Any]:
    """A user's rights in a vhost."""
    return {
        "user": rights.user_name,
        "vhost": rights.vhost_name,
        "configure": rights.pattern("configure"),
        "write": rights.pattern("write"),
        "read": rights.pattern("read"),
    }


def topic_permission_view(topic: Topic) -> dict[str, Any]:
    """A user's routing keys on one topic exchange."""
    rights, exchange = topic
    write, read = rights.topics[exchange]
    return {
        "user": rights.user_name,
        "vhost": rights.vhost_name,
        "exchange": exchange,
        "write": write,
        "read": read,
    }


def all_rights(ask: Ask) -> Iterator[Rights]:
    """Those that the path is about: of a user, in a vhost, or all."""
    users = [the_user(ask)] if "user" in ask.path else ask.broker.users.values()
    vhost_name = ask.vhost.name if "vhost" in ask.path else None
    for user in users:
        for rights in user.rights.values():
            if vhost_name is None or rights.vhost_name == vhost_name:
                yield rights


def get_permissions(ask: Ask) -> Answer:
    """Who may do what."""
    granted = [rights for rights in all_rights(ask) if rights.granted]
    return listed(ask.query, granted, permission_view, lambda rights: (rights.vhost_name, rights.user_name))


def get_topic_permissions(ask: Ask) -> Answer:
    """Who is bound to which routing keys."""
    return listed_topics(ask, all_rights(ask))


def listed_topics(ask: Ask, found: Iterable[Rights]) -> Answer:
    topics = [(rights, exchange) for rights in found for exchange in rights.topics]
    return listed(
        ask.query,
        topics,
        topic_permission_view,
        lambda topic: (topic[0].vhost_name, topic[1], topic[0].user_name),
    )


def the_rights(ask: Ask) -> Rights:
    """Those of the path's user in the path's vhost, or 404."""
    rights = the_user(ask).rights.get(ask.vhost.name)
    if rights is None:
        raise not_found()
    return rights


def check_both(ask: Ask) -> tuple[str, str]:
    """User and vhost of a path by which something is set: both must be there."""
    user, vhost = ask.path["user"], ask.path["vhost"]
    if user not in ask.broker.users or vhost not in ask.broker.vhosts:
        raise bad_request("vhost_or_user_not_found")
    return user, vhost


def patterns(ask: Ask, *keys: str) -> list[str]:
    """These patterns of the body, each of which must be there and be text."""
    found = ask.need(*keys)
    for key, value in zip(keys, found, strict=True):
        if not isinstance(value, str):
            raise bad_request(f"{key} must be text")
    return found


def get_permission(ask: Ask) -> Result:
    """What a user may do in a vhost."""
    rights = the_rights(ask)
    if not rights.granted:
        raise not_found()
    return chosen(ask.query, permission_view(rights))


async def put_permission(ask: Ask) -> Result:
    """Let a user into a vhost."""
    user, vhost = check_both(ask)
    configure, write, read = patterns(ask, "configure", "write", "read")
    rights = ask.broker.users[user].rights.get(vhost)
    existed = rights is not None and rights.granted
    await ask.change(ask.broker.set_permissions, user, vhost, configure, write, read, by=ask.user.name)
    return created(existed)


async def delete_permission(ask: Ask) -> Result:
    """Let a user no longer into a vhost."""
    rights = the_rights(ask)
    if not rights.granted:
        raise not_found()
    await ask.change(ask.broker.clear_permissions, rights.user_name, rights.vhost_name, by=ask.user.name)
    return done()


def get_topic_permission(ask: Ask) -> Result:
    """A user's routing keys in a vhost, on one topic exchange or on all."""
    rights = the_rights(ask)
    check_topics(ask, rights)
    if "exchange" in ask.path:
        return [topic_permission_view((rights, ask.path["exchange"]))]
    return listed_topics(ask, [rights])


async def put_topic_permission(ask: Ask) -> Result:
    """Allow a user only some routing keys on a topic exchange."""
    user, vhost = check_both(ask)
    exchange, write, read = patterns(ask, "exchange", "write", "read")
    checked_name(exchange, "exchange")
    rights = ask.broker.users[user].rights.get(vhost)
    existed = rights is not None and bool(rights.topics)
    await ask.change(ask.broker.set_topic_permissions, user, vhost, exchange, write, read, by=ask.user.name)
    return created(existed)


async def delete_topic_permission(ask: Ask) -> Result:
    """Allow a user all routing keys again, on one topic exchange or on all."""
    rights = the_rights(ask)
    check_topics(ask, rights)
    exchange = ask.path.get("exchange")
    await ask.change(ask.broker.clear_topic_permissions, rights.user_name, rights.vhost_name, exchange, by=ask.user.name)
    return done()


def check_topics(ask: Ask, rights: Rights) -> None:
    exchange = ask.path.get("exchange")
    if not rights.topics or (exchange is not None and exchange not in rights.topics):
        raise not_found()


ROUTES = [
    Route("GET", "/api/permissions", ADMINISTRATOR, get_permissions),
    Route("GET", "/api/permissions/{vhost}/{user}", ADMINISTRATOR, get_permission),
    Route("PUT", "/api/permissions/{vhost}/{user}", ADMINISTRATOR, put_permission),
    Route("DELETE", "/api/permissions/{vhost}/{user}", ADMINISTRATOR, delete_permission),
    Route("GET", "/api/users/{user}/permissions", ADMINISTRATOR, get_permissions),
    Route("GET", "/api/vhosts/{vhost}/permissions", ADMINISTRATOR, get_permissions),
    Route("GET", "/api/topic-permissions", ADMINISTRATOR, get_topic_permissions),
    Route("GET", "/api/topic-permissions/{vhost}/{user}", ADMINISTRATOR, get_topic_permission),
    Route("PUT", "/api/topic-permissions/{vhost}/{user}", ADMINISTRATOR, put_topic_permission),
    Route("DELETE", "/api/topic-permissions/{vhost}/{user}", ADMINISTRATOR, delete_topic_permission),
    Route("GET", "/api/topic-permissions/{vhost}/{user}/{exchange}", ADMINISTRATOR, get_topic_permission),
    Route("DELETE", "/api/topic-permissions/{vhost}/{user}/{exchange}", ADMINISTRATOR, delete_topic_permission),
    Route("GET", "/api/users/{user}/topic-permissions", ADMINISTRATOR, get_topic_permissions),
    Route("GET", "/api/vhosts/{vhost}/topic-permissions", ADMINISTRATOR, get_topic_permissions),
]
