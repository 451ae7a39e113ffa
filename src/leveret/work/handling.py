"""What becomes of a message: whether it is handled, and what the broker and the sender are told, and when.

                             OnlyOnSuccessHandling     AlwaysAfterHandling       AlwaysBeforeHandling
  refused first              given back                given back                given back
  handled well               acknowledged after        acknowledged after        acknowledged before
  failed, RejectPolicy
    OnFailure                given back, up to         given back, up to         (the check refuses this)
                             DeliveryLimit             DeliveryLimit
    OnFailureDeadLetter      rejected, dead-lettered   rejected, dead-lettered   (the check refuses this)
    any other                left unacknowledged       acknowledged after        acknowledged before

(1) A refused message is never acknowledged. WhenOverloaded and functions are asked before a message is handled.
(2) A handler that acknowledges or rejects a message itself has decided.
(3) Whatever a handler raises is logged, and never reaches the worker.
(4) What a failure gives back is kept for a while before, each time longer; and so is what a handler itself gives back.
(5) Acknowledged before means that the broker has been told before the handler begins: what could not be said because
    the connection was cut comes again, and is not handled now.
"""

import logging
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from leveret.work.checking import function_named
from leveret.work.counters import Counters
from leveret.work.failures import Failures, pause_s
from leveret.work.load import InFlight, overloaded
from leveret.work.message import Message
from leveret.work.metadata import (
    AFTER,
    BEFORE,
    ON_FAILURE,
    ON_FAILURE_DEAD_LETTER,
    REJECT_POLICIES,
    WHEN_OVERLOADED,
    Subscription,
)

log = logging.getLogger("leveret.work")

ERROR_MAX = 1000

Refuse = Callable[[Message], Any]


class Handling:
    """One worker's messages: `begin` before the handler is called, then `succeeded` or `failed`, and `ended` at last."""

    def __init__(
        self, subscription: Subscription, counters: Counters, in_flight: InFlight, failures: Failures | None = None
    ) -> None:
        self._subscription = subscription
        self._acknowledge = subscription.acknowledge_policy
        self._policy = subscription.reject_policy
        self._receipt = subscription.receipt
        self._counters = counters
        self._in_flight = in_flight
        self._failures = Failures() if failures is None else failures
        self._refuses = refusal_of(subscription)
        self._most = bound_of(subscription).get("InFlight", inf)

    def begin(self, message: Message) -> bool:
        """Whether this message is to be handled; if not, it has been given back."""
        self._counters.received += 1
        if self._is_refused(message):
            self._counters.refused += 1
            self._tell(message, "rejected")
            message.reject(requeue=True)
            return False
        message.pause_s = self._pause_s
        if self._acknowledge == BEFORE:
            message.ack()
            if not message.sent():
                self.ended()
                return False
        return True

    def succeeded(self, message: Message) -> str:
        """The handler has returned; what has become of the message."""
        if message.settled in ("requeued", "rejected"):
            # By the handler itself.
            outcome = "rejected"
            self._counters.refused += 1
        else:
            outcome = "handled"
            self._counters.handled += 1
            if message.redelivered:
                self._failures.forget(message)
        self._tell(message, outcome)
        message.ack()
        return outcome

    def failed(self, message: Message, error: BaseException) -> None:
        self._counters.failed += 1
        log.error("%s: %s failed", self._subscription.title, message.title, exc_info=error)
        self._tell(message, "failed", described(error))
        if self._policy == ON_FAILURE:
            message.reject(requeue=not self._is_over_limit(message))
        elif self._policy == ON_FAILURE_DEAD_LETTER:
            message.reject(requeue=False)
        elif self._acknowledge == AFTER:
            message.ack()
        elif not message.settled:
            self._leave(message)

    def _is_over_limit(self, message: Message) -> bool:
        """Whether it has been given back as often as it may be."""
        limit = self._subscription.delivery_limit
        if not limit or message.settled:
            return False
        count = self._failures.add(message)
        # It is counted already.
        message.pause_s = lambda message: pause_s(count)
        if count <= limit:
            return False
        log.error("%s: %s has failed %d times and is rejected", self._subscription.title, message.title, count)
        self._failures.forget(message)
        return True

    def _pause_s(self, message: Message) -> float:
        return pause_s(self._failures.add(message))

    def ended(self) -> None:
        """The handler is done with a message, or was broken off: then the connection's end gives it back."""
        self._in_flight.leave()

    def _is_refused(self, message: Message) -> bool:
        return (self._refuses is not None and self._asks(self._refuses, message)) or not self._in_flight.enter(self._most)

    def _asks(self, refuses: Refuse, message: Message) -> bool:
        try:
            return bool(refuses(message))
        except BaseException:
            # It is there to refuse for load; what it cannot say is no reason to.
            log.exception("%s: the reject policy failed for %s", self._subscription.title, message.title)
            return False

    def _leave(self, message: Message) -> None:
        self._counters.unacknowledged += 1
        count, size = message.leave()
        most, most_bytes = self._subscription.prefetch_count, self._subscription.prefetch_size
        if count == most or size - len(message.body) < most_bytes <= size:
            log.warning(
                "%s: %d messages of %d bytes have failed and stay unacknowledged, which is all that the prefetch allows; "
                "nothing more comes before the connection ends",
                self._subscription.title,
                count,
                size,
            )

    def _tell(self, message: Message, outcome: str, error: str = "") -> None:
        if self._receipt == "Always" or (self._receipt == "OnSuccess" and outcome == "handled"):
            try:
                self._counters.receipts += message.send_receipt(outcome, error)
            except Exception:
                log.exception("%s: no receipt for %s", self._subscription.title, message.title)


def described(error: BaseException) -> str:
    """An exception in a few words that fit a header, whatever it is."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ fails
        text = type(error).__name__
    return text[:ERROR_MAX].encode(errors="replace").decode()


def bound_of(subscription: Subscription) -> Mapping[str, Any]:
    """What WhenOverloaded allows."""
    policy = subscription.reject_policy
    return policy[WHEN_OVERLOADED] if isinstance(policy, Mapping) else {}


def refusal_of(subscription: Subscription) -> Refuse | None:
    """What is asked before a message is handled, if anything is; how much is in flight is looked at after that."""
    policy = subscription.reject_policy
    if callable(policy):
        return policy
    if isinstance(policy, Mapping) or policy == WHEN_OVERLOADED:
        bound = bound_of(subscription)
        return lambda message: overloaded(bound)
    return None if policy in REJECT_POLICIES else function_named(policy)
