"""SPEC §7.4 OAuth 2: what scopes let their user do."""

import pytest

from leveret.auth.scope import SCOPES_MAX, ScopeRights, TokenUser, parse_scopes
from leveret.broker.access import User
from leveret.errors import AccessRefused


def rights(*scopes: str, vhost: str = "/") -> ScopeRights:
    return ScopeRights("shop", vhost, parse_scopes(scopes)[1])


@pytest.mark.parametrize(
    ("scope", "vhost", "permission", "name", "allowed"),
    [
        ("read:*/*", "any", "read", "any", True),
        ("read:*/*", "any", "write", "any", False),
        ("read:%2F/orders", "/", "read", "orders", True),
        ("read:%2F/orders", "v", "read", "orders", False),
        ("read:%2F/orders", "/", "read", "orders2", False),
        ("read:%2F/orders", "/", "read", "my-orders", False),
        ("write:v*/q-*-x", "v1", "write", "q-1-x", True),
        ("write:v*/q-*-x", "v1", "write", "q-1-y", False),
        ("configure:v/a.b", "v", "configure", "a.b", True),
        ("configure:v/a.b", "v", "configure", "axb", False),
        ("configure:v/.*", "v", "configure", "anything", False),
        ("read:v/a%2Fb", "v", "read", "a/b", True),
        ("read:v", "v", "read", "a", False),
        ("read:v/a/b/c", "v", "read", "a", False),
        ("admin:v/a", "v", "admin", "a", False),
        ("read", "v", "read", "a", False),
        ("read:v/two\nlines*", "v", "read", "two\nlines\n", True),
    ],
)
def test_scope(scope: str, vhost: str, permission: str, name: str, allowed: bool) -> None:
    assert rights(scope, vhost=vhost).allows(permission, name) is allowed


def test_vhost_is_entered_with_any_scope_for_it() -> None:
    assert rights("write:v/q", vhost="v").granted
    assert not rights("write:v/q", vhost="w").granted
    assert not rights("tag:administrator").granted


def test_routing_keys_of_topics() -> None:
    found = rights("write:*/amq.topic/orders.*", "read:*/*")
    found.check_topic("write", "amq.topic", "orders.new")
    found.check_topic("read", "amq.topic", "anything")
    with pytest.raises(AccessRefused, match=r"write access to topic 'bills' in exchange 'amq.topic' in vhost '/' refused"):
        found.check_topic("write", "amq.topic", "bills")


def test_tags_and_how_many() -> None:
    tags, scopes = parse_scopes(["tag:administrator", "tag:monitoring", *["read:*/*"] * 2000])
    assert (tags, len(scopes)) == (("administrator", "monitoring"), SCOPES_MAX - 2)


def test_renewed_token_has_its_own_scopes() -> None:
    user = TokenUser("shop", ["read:*/*"], 1000)
    held = user.rights_in("/")
    assert user.renew(TokenUser("shop", ["write:*/*", "tag:management"], 2000))
    assert (held.allows("read", "q"), held.allows("write", "q")) == (False, True)
    assert (user.tags, user.expires_at) == (("management",), 2000)
    assert not user.renew(TokenUser("other", ["read:*/*"], 3000))
    assert not user.renew(User("shop", ""))
    user.end()
    assert (held.granted, held.allows("write", "q"), user.rights_in("w").granted) == (False, False, False)
