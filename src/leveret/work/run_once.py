"""One message handled without a broker, for tests: what the handler does, and what the broker would have been told."""

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from leveret.client.incoming import Delivery
from leveret.wire.properties import Properties, encode_properties
from leveret.work.body import encode_body
from leveret.work.handler import message_handler
from leveret.work.message import Message
from leveret.work.policy import Counters, InFlight, MessagePolicy
from leveret.work.subscription import Exchange, Subscription
from leveret.work.validation import check


@dataclass(slots=True)
class Sent:
    """A reply or a receipt that was published."""

    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


@dataclass(slots=True)
class Outcome:
    """What became of a message.

    `outcome` is handled, failed or rejected; `settled` is acked, requeued, rejected, or "" if it was left unacknowledged;
    `error` is what the handler raised, `result` what it returned, and `sent` what was published.
    """

    outcome: str = ""
    settled: str = ""
    result: Any = None
    error: BaseException | None = None
    sent: list[Sent] = field(default_factory=list)


class RecordingChannel:
    """A channel without a broker: it keeps what is published."""

    def __init__(self, sent: list[Sent]) -> None:
        self._sent = sent

    left_count = left_bytes = 0

    def ack(self, tag: int) -> None:
        """`Message.settled` says so."""

    def reject(self, tag: int, requeue: bool, after_s: float = 0.0) -> None:
        """`Message.settled` says so."""

    def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> bool:
        encode_properties(properties)
        self._sent.append(Sent(exchange, routing_key, properties, body))
        return True

    def wait_until_sent(self) -> bool:
        return True

    def leave_unacked(self, size: int) -> None:
        """It is the only message."""


def run_once(
    subscription: Subscription,
    body: object = b"",
    *,
    routing_key: str = "",
    exchange: str = "",
    headers: Mapping[str, Any] | None = None,
    redelivered: bool = False,
    **properties: Any,
) -> Outcome:
    """Handle one message with this subscription's handler and policies.

    `body` is encoded as by `Message.reply`, which sets the content-type too; `properties` are AMQP's.
    """
    check([Exchange("once", type="Fanout", subscriptions=[subscription])])
    octets, content_type = encode_body(body)
    given = Properties(**{"content_type": content_type, "headers": dict(headers) if headers else None, **properties})
    delivery = Delivery(1, redelivered, exchange, routing_key, encode_properties(given), octets)
    found = Outcome()
    message = Message(delivery, subscription.consumer_id, RecordingChannel(found.sent))
    policy = MessagePolicy(subscription, Counters(), InFlight())
    if not policy.begin(message):
        found.outcome = "rejected"
    else:
        try:
            result = message_handler(subscription.handler, subscription.handler_time_limit)(message)
            found.result = result_of(result) if inspect.isawaitable(result) else result
        except (Exception, SystemExit) as error:
            found.outcome, found.error = "failed", error
            policy.failed(message, error)
        else:
            found.outcome = policy.succeeded(message)
        finally:
            policy.ended()
    found.settled = message.settled
    return found


def result_of(awaitable: Awaitable[object]) -> object:
    """What a coroutine returns, run in a thread of its own: in this one a loop may be running the caller."""

    async def wait() -> object:
        return await awaitable

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, wait()).result()
