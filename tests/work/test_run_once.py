"""A handler alone, with one message and no broker."""

import asyncio
from typing import Any

import pytest
from tests.work.table import PAIRS, TABLE

from leveret.work import BadSubscriptions, Message, Subscription
from leveret.work.run_once import Sent, run_once


def fails(message: Message) -> None:
    raise ValueError("no")


def headers(sent: Sent) -> Any:
    return sent.properties.headers


SETTLED = {"acked": "acked", "requeued": "requeued", "rejected": "dead-lettered", "": "unacked"}


@pytest.mark.parametrize(("acknowledge", "reject"), [pair for pair in PAIRS if ":" not in pair[1]])
def test_policies_do_as_with_a_broker(acknowledge: str, reject: str) -> None:
    fates = TABLE[acknowledge, reject]
    assert fates is not None
    policy: Any = {"WhenOverloaded": {"InFlight": 5}} if reject == "WhenOverloaded" else reject
    common: Any = {"name": "s", "acknowledge_policy": acknowledge, "reject_policy": policy, "receipt": "Always"}
    for outcome, handler in (("success", lambda message: 7), ("exception", fails)):
        found = run_once(Subscription(handler=handler, **common), b"x", reply_to="r", correlation_id="c")
        (receipt,) = found.sent
        assert (SETTLED[found.settled], headers(receipt)["outcome"]) == fates[outcome]
        assert (receipt.exchange, receipt.routing_key, receipt.properties.correlation_id) == ("", "r", "c")
        assert (found.result, found.outcome) == ((7, "handled") if outcome == "success" else (None, "failed"))
        assert isinstance(found.error, ValueError) is (outcome == "exception")


def test_refused() -> None:
    found = run_once(
        Subscription(name="s", handler=fails, reject_policy=lambda message: True, receipt="Always"), reply_to="r"
    )
    assert (found.outcome, found.settled, found.sent[0].properties.headers) == (
        "rejected",
        "requeued",
        {"outcome": "rejected"},
    )


def test_what_a_handler_gets() -> None:
    def handler(message: Message) -> object:
        return (message.content, message.headers, message.routing_key, message.exchange, message.consumer_id)

    one = Subscription(name="s", consumer_id="me", handler=handler)
    found = run_once(one, {"a": 1}, routing_key="k", exchange="x", headers={"h": True})
    assert found.result == ({"a": 1}, {"h": True}, "k", "x", "me")
    assert run_once(one, "é").result[0] == "é"
    assert run_once(one, b"\xff").result[0] == b"\xff"
    assert run_once(one, b"[1]", content_type="application/json").result[0] == [1]


def test_handler_that_decides_itself() -> None:
    decided = run_once(Subscription(name="s", handler=lambda message: message.reject(), receipt="Always"), reply_to="r")
    assert (decided.outcome, decided.settled, headers(decided.sent[0])["outcome"]) == (
        "rejected",
        "rejected",
        "rejected",
    )

    def acks_and_fails(message: Message) -> None:
        message.ack()
        raise ValueError

    found = run_once(Subscription(name="s", handler=acks_and_fails, reject_policy="OnFailure"))
    assert (found.outcome, found.settled) == ("failed", "acked")


def test_answers() -> None:
    def handler(message: Message) -> list[bool]:
        return [message.reply(b"a"), message.reply("é", type="t"), message.reply({"b": 1}, headers={"h": 1})]

    one = Subscription(name="s", handler=handler)
    found = run_once(one, reply_to="r", correlation_id="c")
    assert found.result == [True] * 3
    sent = [(one.body, one.properties.content_type, one.properties.type, one.properties.headers) for one in found.sent]
    assert sent == [
        (b"a", None, None, None),
        ("é".encode(), "text/plain; charset=utf-8", "t", None),
        (b'{"b":1}', "application/json", None, {"h": 1}),
    ]
    assert run_once(one).result == [False] * 3


async def slow(message: Message) -> str:
    await asyncio.sleep(0)
    return "done"


def test_coroutines_also_within_a_loop() -> None:
    one = Subscription(name="s", handler=slow)
    assert run_once(one).result == "done"

    async def inside() -> Any:
        return run_once(one).result

    assert asyncio.run(inside()) == "done"


def test_end_of_the_program_is_a_failure() -> None:
    def leave(message: Message) -> None:
        raise SystemExit(3)

    found = run_once(Subscription(name="s", handler=leave))
    assert (found.outcome, found.settled, type(found.error)) == ("failed", "acked", SystemExit)


def test_bad_body_is_a_failure() -> None:
    one = Subscription(name="s", handler=lambda message: message.content, receipt="Always")
    found = run_once(one, b"{", content_type="application/json", reply_to="r")
    assert found.outcome == "failed"
    assert headers(found.sent[0])["error"].startswith("BadBody: the body is not JSON")


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("error", "told"),
    [(Silent(), "Silent"), (ValueError("x" * 99_999), "ValueError: " + "x" * 988), (ValueError("\ud800"), "ValueError: ?")],
)
def test_receipt_of_any_exception(error: Exception, told: str) -> None:
    def handler(message: Message) -> None:
        raise error

    found = run_once(Subscription(name="s", handler=handler, receipt="Always"), reply_to="r")
    assert headers(found.sent[0])["error"] == told


def test_bad_subscription() -> None:
    with pytest.raises(BadSubscriptions, match="PrefetchCount"):
        run_once(Subscription(name="s", handler=fails, prefetch_count=-1))
