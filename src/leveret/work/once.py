"""A handler alone, without a broker: what it does with one message, and what the broker would have been told."""

import asyncio
import inspect
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from leveret.client.incoming import Delivery
from leveret.wire.properties import Properties, encode_properties
from leveret.work.checking import check
from leveret.work.counters import Counters
from leveret.work.handlers import handle_of
from leveret.work.handling import Handling
from leveret.work.load import InFlight
from leveret.work.message import Message, encoded
from leveret.work.metadata import Exchange, Subscription


@dataclass(slots=True)
class Sent:
    """What a handler, or a receipt, has published."""

    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


@dataclass(slots=True)
class Outcome:
    """What has become of a message.

    `outcome` is handled, failed or rejected; `settled` is acked, requeued, rejected or "" if the broker was told nothing;
    `error` is what the handler raised, `result` what it returned, and `sent` what was published.
    """

    outcome: str = ""
    settled: str = ""
    result: Any = None
    error: BaseException | None = None
    sent: list[Sent] = field(default_factory=list)


class Recorder:
    """A line to nowhere."""

    def __init__(self, sent: list[Sent]) -> None:
        self._sent = sent

    left_count = left_bytes = 0

    def ack(self, tag: int) -> None:
        """The message knows."""

    def reject(self, tag: int, requeue: bool, after_s: float = 0.0) -> None:
        """The message knows."""

    def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> bool:
        encode_properties(properties)
        self._sent.append(Sent(exchange, routing_key, properties, body))
        return True

    def sent(self) -> bool:
        return True

    def leave(self, size: int) -> None:
        """It is the only one."""


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
    """Handle one message by this subscription's handler and policies.

    Text and values are encoded as `Message.reply` does, with the content-type that goes with it; `properties` are AMQP's.
    """
    check([Exchange("once", type="Fanout", subscriptions=[subscription])])
    octets, kind = encoded(body)
    described = Properties(**{"content_type": kind, "headers": dict(headers) if headers else None, **properties})
    delivery = Delivery(1, redelivered, exchange, routing_key, encode_properties(described), octets)
    found = Outcome()
    message = Message(delivery, subscription.consumer_id, Recorder(found.sent))
    handling = Handling(subscription, Counters(), InFlight())
    if not handling.begin(message):
        found.outcome = "rejected"
    else:
        try:
            result = handle_of(subscription.handler, subscription.handler_time_limit)(message)
            found.result = result_of(result) if inspect.isawaitable(result) else result
        except (Exception, SystemExit) as error:
            found.outcome, found.error = "failed", error
            handling.failed(message, error)
        else:
            found.outcome = handling.succeeded(message)
        finally:
            handling.ended()
    found.settled = message.settled
    return found


def result_of(awaitable: Any) -> Any:
    """What a coroutine returns; on a loop of its own, in a thread as there may be one here that runs this very test."""

    async def wait() -> Any:
        return await awaitable

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, wait()).result()
