"""Links as values: bytes in, records out; who is let in, and what is not believed."""

import msgspec
import pytest

from leveret.cluster.link import (
    BEAT,
    GREETING_MAX,
    HEAD_SIZE,
    HELLO,
    RECORD_HEAD_SIZE,
    SIZE_MAX,
    VERSION,
    WELCOME,
    BadLink,
    Hello,
    Link,
    Record,
    Refusal,
    batch_of,
)

SECRET = b"hush"


def hello(node: str, **more: object) -> Hello:
    found = Hello(VERSION, "tests", node, f"id of {node}", 1, "127.0.0.1", 1, 2, 0, f"nonce of {node}")
    return msgspec.structs.replace(found, **more)


def anyone(found: Hello) -> Refusal | None:
    return None


def pair(first: Link, second: Link) -> None:
    """Let both say what they have to say, until neither has anything."""
    while True:
        one, other = first.take_output(), second.take_output()
        if not one and not other:
            return
        second.receive(one)
        first.receive(other)


def links(secret: bytes = SECRET, **more: object) -> tuple[Link, Link]:
    first = Link(hello("n1"), SECRET, anyone, dialed=True)
    second = Link(hello("n2", **more), secret, anyone, dialed=False)
    pair(first, second)
    return first, second


def record(kind: int, octets: bytes) -> bytes:
    return bytes((kind,)) + len(octets).to_bytes(4, "big") + octets


def test_two_who_know_the_secret_are_linked() -> None:
    first, second = links()
    assert first.is_open
    assert second.is_open
    assert first.theirs is not None
    assert first.theirs.node == "n2"
    first.send(BEAT, b"one")
    first.send(BEAT, b"two")
    assert second.receive(first.take_output()) == [(BEAT, b"one"), (BEAT, b"two")]


def test_records_come_whole_however_they_are_cut() -> None:
    first, second = links()
    first.send(BEAT, b"a" * 100)
    octets = first.take_output()
    found: list[Record] = []
    for at in range(len(octets)):
        found += second.receive(octets[at : at + 1])
    assert found == [(BEAT, b"a" * 100)]


def test_secret_is_never_sent() -> None:
    link = Link(hello("n1"), SECRET, anyone, dialed=True)
    other = Link(hello("n2"), SECRET, anyone, dialed=False)
    sent = b""
    for _ in range(4):
        octets = link.take_output()
        sent += octets
        other.receive(octets)
        link.receive(other.take_output())
    assert link.is_open
    assert SECRET not in sent


@pytest.mark.parametrize(
    ("more", "rule", "text"),
    [
        ({"secret": b"other"}, "secret", "node 'n2' does not have the secret of the cluster 'tests'"),
        ({"cluster": "other"}, "cluster", "node 'n1' is in the cluster 'tests', not in 'other'"),
        ({"version": 0}, "version", "node 'n2' has version 0 of what nodes say to each other, which is older than"),
    ],
)
def test_who_does_not_belong_is_refused_and_told_why(more: dict[str, object], rule: str, text: str) -> None:
    first, second = links(**more)  # type: ignore[arg-type]
    assert not first.is_open
    assert not second.is_open
    assert first.has_refused is not None
    assert first.has_refused.rule == rule
    assert first.has_refused.text.startswith(text)
    told = second.refused or second.has_refused
    assert told is not None
    assert told.rule == rule


def test_who_is_judged_unfit_is_refused() -> None:
    refusal = Refusal("name", "in use")
    first = Link(hello("n1"), SECRET, lambda found: refusal if found.node == "n2" else None, dialed=True)
    second = Link(hello("n2"), SECRET, anyone, dialed=False)
    pair(first, second)
    assert second.refused == refusal
    assert not first.is_open
    assert not second.is_open


def test_proof_of_another_connection_is_no_proof() -> None:
    """What somebody has said to us is not taken from whoever has only heard it."""
    first = Link(hello("n1"), SECRET, anyone, dialed=True)
    honest = Link(hello("n2"), SECRET, anyone, dialed=False)
    honest.receive(first.take_output())
    greeting = honest.take_output()
    again = Link(hello("n1", nonce="another"), SECRET, anyone, dialed=True)
    again.take_output()
    again.receive(greeting)
    assert again.has_refused is not None
    assert again.has_refused.rule == "secret"


def test_own_proof_given_back_is_no_proof() -> None:
    first = Link(hello("n1"), SECRET, anyone, dialed=True)
    mirror = Link(hello("n1", id="another"), b"not known", anyone, dialed=False)
    first.receive(mirror.take_output())
    first.take_output()
    sent = Link(hello("n1"), SECRET, anyone, dialed=True)
    sent.receive(batch_of(1, record(HELLO, msgspec.json.encode(mirror.mine))))
    octets = sent.take_output()
    # Behind its HELLO there is its PROOF, given back as the second batch.
    proof = octets[octets.index(b"\2\0\0\0\x20") : octets.index(b"\2\0\0\0\x20") + 37]
    first.receive(batch_of(2, proof))
    assert first.has_refused is not None


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(batch_of(1, record(BEAT, b"x")), id="a number that was there"),
        pytest.param(batch_of(9, record(BEAT, b"x")), id="a number that is not next"),
        pytest.param((SIZE_MAX - 7).to_bytes(4, "big") + bytes(12), id="too large"),
        pytest.param((7).to_bytes(4, "big") + bytes(12), id="too small"),
    ],
)
def test_bad_batch_ends_the_link(octets: bytes) -> None:
    _, second = links()
    with pytest.raises(BadLink):
        second.receive(octets)


def next_number(link: Link) -> int:
    """The number of the batch that comes next to this end."""
    return link._received + 1


def test_of_a_bad_batch_nothing_is_given_on() -> None:
    first, second = links()
    first.send(BEAT, b"good")
    octets = bytearray(first.take_output())
    octets[-1] ^= 1
    with pytest.raises(BadLink, match="damaged"):
        second.receive(bytes(octets))
    first, second = links()
    whole = record(BEAT, b"good")
    with pytest.raises(BadLink, match="cut off"):
        second.receive(batch_of(next_number(second), whole + whole[:-1]))


def test_batch_may_be_as_large_as_the_limit() -> None:
    first, second = links()
    octets = bytes(SIZE_MAX - HEAD_SIZE - RECORD_HEAD_SIZE)
    first.send(BEAT, octets)
    assert second.receive(first.take_output()) == [(BEAT, octets)]
    with pytest.raises(ValueError, match="too large"):
        first.send(BEAT, octets + b"\0")


def test_what_is_too_much_for_one_batch_is_several() -> None:
    first, second = links()
    octets = bytes(SIZE_MAX // 2)
    for _ in range(3):
        first.send(BEAT, octets)
    assert second.receive(first.take_output()) == [(BEAT, octets)] * 3


def test_stranger_may_say_little() -> None:
    link = Link(hello("n1"), SECRET, anyone, dialed=False)
    with pytest.raises(BadLink):
        link.receive((GREETING_MAX - 7).to_bytes(4, "big") + bytes(12))
    link = Link(hello("n1"), SECRET, anyone, dialed=False)
    assert link.receive((GREETING_MAX - 8).to_bytes(4, "big") + bytes(12)) == []


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(record(BEAT, b"{}"), id="a beat before the greeting"),
        pytest.param(record(WELCOME, b""), id="a welcome before the proof"),
        pytest.param(record(HELLO, b"{}"), id="a greeting without a name"),
        pytest.param(record(HELLO, b"\xff"), id="no greeting"),
        pytest.param(record(2, bytes(32)), id="a proof of nobody"),
    ],
)
def test_stranger_may_say_nothing_else(octets: bytes) -> None:
    link = Link(hello("n1"), SECRET, anyone, dialed=False)
    with pytest.raises(BadLink):
        link.receive(batch_of(1, octets))
