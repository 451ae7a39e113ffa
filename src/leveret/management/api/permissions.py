"""What users may do in vhosts, and with which routing keys on topic exchanges."""

from collections.abc import Iterable, Iterator

from leveret.broker.rights import Rights
from leveret.management.api.users import find_user
from leveret.management.http.answer import Answer, bad_request, created, done, not_found
from leveret.management.http.json import JsonObject
from leveret.management.http.list_answer import answer_list
from leveret.management.http.list_query import select_columns
from leveret.management.http.request import Request
from leveret.management.http.route import ADMINISTRATOR, Result, Route
from leveret.server.from_json import checked_name

Topic = tuple[Rights, str]


def permission_view(rights: Rights) -> JsonObject:
    """A user's rights in a vhost."""
    return {
        "user": rights.user_name,
        "vhost": rights.vhost_name,
        "configure": rights.pattern("configure"),
        "write": rights.pattern("write"),
        "read": rights.pattern("read"),
    }


def topic_permission_view(topic: Topic) -> JsonObject:
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


def all_rights(request: Request) -> Iterator[Rights]:
    """Those that the path is about: of a user, in a vhost, or all."""
    users = [find_user(request)] if "user" in request.path else request.broker.users.values()
    vhost_name = request.vhost.name if "vhost" in request.path else None
    for user in users:
        for rights in user.rights.values():
            if vhost_name is None or rights.vhost_name == vhost_name:
                yield rights


def get_permissions(request: Request) -> Answer:
    """All permissions."""
    granted = [rights for rights in all_rights(request) if rights.granted]
    return answer_list(request.query, granted, permission_view, lambda rights: (rights.vhost_name, rights.user_name))


def get_topic_permissions(request: Request) -> Answer:
    """All topic permissions."""
    return listed_topics(request, all_rights(request))


def listed_topics(request: Request, found: Iterable[Rights]) -> Answer:
    topics = [(rights, exchange) for rights in found for exchange in rights.topics]
    return answer_list(
        request.query,
        topics,
        topic_permission_view,
        lambda topic: (topic[0].vhost_name, topic[1], topic[0].user_name),
    )


def find_rights(request: Request) -> Rights:
    """Those of the path's user in the path's vhost, or 404."""
    rights = find_user(request).rights.get(request.vhost.name)
    if rights is None:
        raise not_found()
    return rights


def check_both(request: Request) -> tuple[str, str]:
    """User and vhost of a path by which something is set: both must be there."""
    user, vhost = request.path["user"], request.path["vhost"]
    if user not in request.broker.users or vhost not in request.broker.vhosts:
        raise bad_request("vhost_or_user_not_found")
    return user, vhost


def patterns(request: Request, *keys: str) -> list[str]:
    """These patterns of the body, each of which must be there and be text."""
    found = []
    for key, value in zip(keys, request.need(*keys), strict=True):
        if not isinstance(value, str):
            raise bad_request(f"{key} must be text")
        found.append(value)
    return found


def get_permission(request: Request) -> Result:
    """A user's permissions in a vhost."""
    rights = find_rights(request)
    if not rights.granted:
        raise not_found()
    return select_columns(request.query, permission_view(rights))


async def put_permission(request: Request) -> Result:
    """Set a user's permissions in a vhost."""
    user, vhost = check_both(request)
    configure, write, read = patterns(request, "configure", "write", "read")
    rights = request.broker.users[user].rights.get(vhost)
    existed = rights is not None and rights.granted
    await request.change(request.broker.set_permissions, user, vhost, configure, write, read)
    return created(existed)


async def delete_permission(request: Request) -> Result:
    """Clear a user's permissions in a vhost."""
    rights = find_rights(request)
    if not rights.granted:
        raise not_found()
    await request.change(request.broker.clear_permissions, rights.user_name, rights.vhost_name)
    return done()


def get_topic_permission(request: Request) -> Result:
    """A user's topic permissions in a vhost, on one exchange or on all."""
    rights = find_rights(request)
    check_topics(request, rights)
    if "exchange" in request.path:
        return [topic_permission_view((rights, request.path["exchange"]))]
    return listed_topics(request, [rights])


async def put_topic_permission(request: Request) -> Result:
    """Set a user's topic permissions on an exchange."""
    user, vhost = check_both(request)
    exchange, write, read = patterns(request, "exchange", "write", "read")
    checked_name(exchange, "exchange")
    rights = request.broker.users[user].rights.get(vhost)
    existed = rights is not None and bool(rights.topics)
    await request.change(request.broker.set_topic_permissions, user, vhost, exchange, write, read)
    return created(existed)


async def delete_topic_permission(request: Request) -> Result:
    """Clear a user's topic permissions, on one exchange or on all."""
    rights = find_rights(request)
    check_topics(request, rights)
    exchange = request.path.get("exchange")
    await request.change(request.broker.clear_topic_permissions, rights.user_name, rights.vhost_name, exchange)
    return done()


def check_topics(request: Request, rights: Rights) -> None:
    exchange = request.path.get("exchange")
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
