"""The key by which RabbitMQ's API names a binding."""

import pytest

from leveret.management.api.properties_key import Atom, Term, phash2, properties_key
from leveret.wire.values import SignedInt


@pytest.mark.parametrize(
    ("number", "term"),
    [
        (3739797118, [(b"x-match", Atom("longstr"), b"all")]),
        (3252331801, [(b"x-match", Atom("longstr"), b"all"), (b"a", Atom("signedint"), 5)]),
        (1857932680, [(b"long binary of more than twelve octets", Atom("longstr"), b"012")]),
        (3942770867, [
            (b"arr", Atom("array"), [(Atom("long"), 1), (Atom("longstr"), b"x")]),
            (b"tab", Atom("table"), [(b"k", Atom("longstr"), b"")]),
            (b"e", Atom("array"), []),
        ]),
        (4031429674, [
            (b"z", Atom("double"), 0.0),
            (b"dec", Atom("decimal"), (2, 314)),
            (b"ts", Atom("timestamp"), 1700000000),
        ]),
        (443517577, [
            (b"m", Atom("long"), 134217728),
            (b"m2", Atom("long"), -134217729),
            (b"m3", Atom("long"), 134217727),
            (b"huge", Atom("long"), 9223372036854775807),
            (b"hugeneg", Atom("long"), -9223372036854775808),
        ]),
        (3468870702, []),
        (56945346, Atom("longstr")),
        (517668864, -5),
        (147926629, b""),
    ],
)  # fmt: skip
def test_hash_is_erlangs(number: int, term: Term) -> None:
    """SPEC §9.1: the properties key is RabbitMQ's; the numbers are from an Erlang shell."""
    assert phash2(term) == number


def test_key_is_quoted() -> None:
    """SPEC §9.1: what is quoted in a properties key is quoted as RabbitMQ does it."""
    assert properties_key("", {}) == "~"
    assert properties_key("a ~/é", {}) == "a+%7E%2F%C3%A9"
    assert properties_key("k", {"x-match": "all", "a": SignedInt(5)}).startswith("k~")
