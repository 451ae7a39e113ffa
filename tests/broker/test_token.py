"""API keys."""

import pytest

from leveret.broker import token as tokens
from leveret.broker.broker import Broker, default_broker
from leveret.broker.token import Token, digest_of, new_key
from leveret.errors import NotFound, PreconditionFailed


@pytest.fixture
def broker() -> Broker:
    return default_broker()


def made(broker: Broker, *scopes: str, expires_at: int = 0) -> tuple[Token, str]:
    id, key = new_key()
    token = Token(id, "guest", digest_of(key), scopes, 0, expires_at)
    broker.add_token(token)
    return token, key


def test_key_is_found_and_not_kept(broker: Broker) -> None:
    token, key = made(broker)
    assert broker.tokens.find(key, 0) is token
    assert broker.tokens.find(key + "x", 0) is None
    assert broker.tokens.find("", 0) is None
    assert key not in repr(token)


def test_key_expires(broker: Broker) -> None:
    token, key = made(broker, expires_at=1000)
    assert broker.tokens.find(key, 999) is token
    assert broker.tokens.find(key, 1000) is None


def test_key_ends_with_its_user(broker: Broker) -> None:
    _, key = made(broker)
    broker.delete_user("guest")
    assert broker.tokens.find(key, 0) is None


def test_deleted_key_is_not_found(broker: Broker) -> None:
    token, key = made(broker)
    broker.delete_token(token.id)
    assert broker.tokens.find(key, 0) is None
    with pytest.raises(NotFound):
        broker.delete_token(token.id)


@pytest.mark.parametrize(
    ("scopes", "of_user", "tags"),
    [
        ((), ("administrator",), ("administrator",)),
        (("read",), ("management",), ("management",)),
        (("monitoring",), ("administrator",), ("monitoring",)),
        (("monitoring", "read"), ("monitoring", "policymaker"), ("monitoring",)),
        (("administrator",), ("management",), ()),
        (("administrator",), ("administrator",), ("administrator",)),
    ],
)
def test_scopes_are_never_more_than_the_user_has(
    scopes: tuple[str, ...], of_user: tuple[str, ...], tags: tuple[str, ...]
) -> None:
    assert Token("", "", "", scopes, 0, 0).tags(of_user) == tags


def test_unknown_scope_and_user_are_refused(broker: Broker) -> None:
    with pytest.raises(PreconditionFailed, match="unknown scope 'everything'"):
        made(broker, "everything")
    with pytest.raises(NotFound):
        broker.add_token(Token("id", "nobody", "digest", (), 0, 0))
    assert broker.tokens.by_id == {}


def test_there_are_not_more_than_the_limit(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKENS_MAX", 2)
    made(broker)
    made(broker)
    with pytest.raises(PreconditionFailed, match=r"token limit \(2\) is reached"):
        made(broker)
