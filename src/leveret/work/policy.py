"""What becomes of a message: whether it is handled, and what the broker and the sender are told, and when.

                             OnlyOnSuccessHandling     AlwaysAfterHandling       AlwaysBeforeHandling
  refused                    requeued                  requeued                  requeued
  handled                    acknowledged after        acknowledged after        acknowledged before
  failed, RejectPolicy
    OnFailure                requeued, up to           requeued, up to           (not allowed)
                             DeliveryLimit             DeliveryLimit
    OnFailureDeadLetter      rejected, dead-lettered   rejected, dead-lettered   (not allowed)
    any other                left unacknowledged       acknowledged after        acknowledged before

(1) A refused message is never acknowledged. WhenOverloaded and functions are asked before a message is handled.
(2) If a handler acknowledges or rejects a message itself, the policies do nothing more.
(3) Whatever a handler raises is logged, and never reaches the worker.
(4) A message that failed, or that its handler requeues, is kept for a while before it is requeued, each time longer.
(5) Acknowledged before means that the acknowledgement is in the socket before the handler is called. If it could not be sent
    because the connection has ended, the broker delivers the message again, and it is not handled now.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from math import inf

from leveret.work.backoff import FailureCounts, requeue_delay_s
from leveret.work.message import Message
from leveret.work.subscription import (
    AFTER,
    BEFORE,
    ON_FAILURE,
    ON_FAILURE_DEAD_LETTER,
    REJECT_POLICIES,
    WHEN_OVERLOADED,
    RejectPolicy,
    Subscription,
    import_function,
)

log = logging.getLogger("leveret.work")

ERROR_MAX = 1000
# For each core, over the last minute.
LOAD_DEFAULT = 1.0

# Load and InFlight of WhenOverloaded.
Limits = Mapping[str, float]


@dataclass(slots=True)
class Counters:
    """What a worker has done: messages received, handled, failed, refused and left unacknowledged; receipts; disconnects.

    Each worker has its own, which only it changes; sums are made on request.
    """

    received: int = 0
    handled: int = 0
    failed: int = 0
    refused: int = 0
    unacknowledged: int = 0
    receipts: int = 0
    disconnects: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def total(all_counters: Iterable[Counters]) -> Counters:
    sums = Counters()
    for counters in all_counters:
        for name, value in counters.as_dict().items():
            setattr(sums, name, getattr(sums, name) + value)
    return sums


class InFlight:
    """How many messages the handlers of this process are working on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def enter(self, limit: float = inf) -> bool:
        """One more, unless there are as many as `limit` already."""
        with self._lock:
            if self.count >= limit:
                return False
            self.count += 1
            return True

    def leave(self) -> None:
        with self._lock:
            self.count -= 1


class MessagePolicy:
    """A subscription's policies: `begin` before the handler is called, then `succeeded` or `failed`, and `ended` at last."""

    def __init__(
        self, subscription: Subscription, counters: Counters, in_flight: InFlight, failures: FailureCounts | None = None
    ) -> None:
        self._subscription = subscription
        self._acknowledge = subscription.acknowledge_policy
        self._reject = subscription.reject_policy
        self._receipt = subscription.receipt
        self._counters = counters
        self._in_flight = in_flight
        self._failures = FailureCounts() if failures is None else failures
        self._refuses = refusal_function(subscription.reject_policy)
        self._in_flight_limit = (overload_limits(subscription.reject_policy) or {}).get("InFlight", inf)

    def begin(self, message: Message) -> bool:
        """Whether this message is to be handled; if not, it has been requeued."""
        self._counters.received += 1
        if self._is_refused(message):
            self._counters.refused += 1
            self._send_receipt(message, "rejected")
            message.reject(requeue=True)
            return False
        message.requeue_delay_s = self._count_failure
        if self._acknowledge == BEFORE:
            message.ack()
            if not message.wait_until_sent():
                self.ended()
                return False
        return True

    def succeeded(self, message: Message) -> str:
        """The handler has returned; the message's outcome."""
        if message.settled in ("requeued", "rejected"):
            # By the handler itself.
            outcome = "rejected"
            self._counters.refused += 1
        else:
            outcome = "handled"
            self._counters.handled += 1
            if message.redelivered:
                self._failures.forget(message)
        self._send_receipt(message, outcome)
        message.ack()
        return outcome

    def failed(self, message: Message, error: BaseException) -> None:
        """The handler has raised."""
        self._counters.failed += 1
        log.error("%s: %s failed", self._subscription.title, message.title, exc_info=error)
        self._send_receipt(message, "failed", error_text(error))
        if self._reject == ON_FAILURE:
            message.reject(requeue=not self._is_over_limit(message))
        elif self._reject == ON_FAILURE_DEAD_LETTER:
            message.reject(requeue=False)
        elif self._acknowledge == AFTER:
            message.ack()
        elif not message.settled:
            self._leave_unacked(message)

    def ended(self) -> None:
        """The handler is done with a message, or was cancelled: then the broker requeues it when the connection ends."""
        self._in_flight.leave()

    def _is_over_limit(self, message: Message) -> bool:
        """Whether it has been requeued as often as DeliveryLimit allows."""
        limit = self._subscription.delivery_limit
        if not limit or message.settled:
            return False
        count = self._failures.add(message)
        # It is counted already.
        message.requeue_delay_s = lambda message: requeue_delay_s(count)
        if count <= limit:
            return False
        log.error("%s: %s has failed %d times and is rejected", self._subscription.title, message.title, count)
        self._failures.forget(message)
        return True

    def _count_failure(self, message: Message) -> float:
        return requeue_delay_s(self._failures.add(message))

    def _is_refused(self, message: Message) -> bool:
        if self._refuses is not None and self._ask(self._refuses, message):
            return True
        return not self._in_flight.enter(self._in_flight_limit)

    def _ask(self, refuses: Callable[[Message], object], message: Message) -> bool:
        try:
            return bool(refuses(message))
        except BaseException:
            # It is there to refuse for load; that it fails is no reason to refuse.
            log.exception("%s: the reject policy failed for %s", self._subscription.title, message.title)
            return False

    def _leave_unacked(self, message: Message) -> None:
        self._counters.unacknowledged += 1
        count, size = message.leave_unacked()
        count_max, size_max = self._subscription.prefetch_count, self._subscription.prefetch_size
        if count == count_max or size - len(message.body) < size_max <= size:
            log.warning(
                "%s: %d messages of %d bytes have failed and stay unacknowledged, which is all that the prefetch allows; "
                "nothing more comes before the connection ends",
                self._subscription.title,
                count,
                size,
            )

    def _send_receipt(self, message: Message, outcome: str, error: str = "") -> None:
        if self._receipt == "Always" or (self._receipt == "OnSuccess" and outcome == "handled"):
            try:
                self._counters.receipts += message.send_receipt(outcome, error)
            except Exception:
                log.exception("%s: no receipt for %s", self._subscription.title, message.title)


def error_text(error: BaseException) -> str:
    """An exception's type and text, short enough for a header, whatever it is."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ fails
        text = type(error).__name__
    return text[:ERROR_MAX].encode(errors="replace").decode()


def refusal_function(policy: RejectPolicy) -> Callable[[Message], object] | None:
    """What is asked before a message is handled, if anything; how many are in flight is looked at after that."""
    if callable(policy):
        return policy
    limits = overload_limits(policy)
    if limits is not None:
        return lambda message: overloaded(limits)
    return import_function(policy) if isinstance(policy, str) and policy not in REJECT_POLICIES else None


def overload_limits(policy: RejectPolicy) -> Limits | None:
    """The limits of a WhenOverloaded policy; None for any other policy."""
    if isinstance(policy, Mapping):
        return policy[WHEN_OVERLOADED]
    return {} if policy == WHEN_OVERLOADED else None


def load_per_core() -> float:
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def overloaded(limits: Limits, load: Callable[[], float] = load_per_core) -> bool:
    """Whether the load is above its limit, which is LOAD_DEFAULT if no limits are given."""
    limit = limits.get("Load", None if "InFlight" in limits else LOAD_DEFAULT)
    return limit is not None and load() > limit
