"""What becomes of a message: whether it is handled, and what the broker and the sender are told, and when.

                             OnlyOnSuccessHandling     AlwaysAfterHandling       AlwaysBeforeHandling
  refused first              given back                given back                given back
  handled well               acknowledged after        acknowledged after        acknowledged before
  failed, RejectPolicy
    OnFailure                given back                given back                (the check refuses this)
    OnFailureDeadLetter      rejected, dead-lettered   rejected, dead-lettered   (the check refuses this)
    any other                left unacknowledged       acknowledged after        acknowledged before

(1) A refused message is never acknowledged. WhenOverloaded and functions are asked before a message is handled.
(2) A handler that acknowledges or rejects a message itself has decided.
(3) Whatever a handler raises is logged, and never reaches the worker.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from leveret.work.checking import function_named
from leveret.work.counters import Counters
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

Refuse = Callable[[Message], Any]


class Handling:
    """One worker's messages: `begin` before the handler is called, then `succeeded` or `failed`."""

    def __init__(self, subscription: Subscription, counters: Counters, in_flight: InFlight) -> None:
        self._subscription = subscription
        self._acknowledge = subscription.acknowledge_policy
        self._policy = subscription.reject_policy
        self._receipt = subscription.receipt
        self._counters = counters
        self._in_flight = in_flight
        self._refuses = refusal_of(subscription, in_flight)

    def begin(self, message: Message) -> bool:
        """Whether this message is to be handled; if not, it has been given back."""
        self._counters.received += 1
        if self._refuses is not None and self._asks(self._refuses, message):
            self._counters.refused += 1
            self._tell(message, "rejected")
            message.reject(requeue=True)
            return False
        if self._acknowledge == BEFORE:
            message.ack()
        self._in_flight.add(1)
        return True

    def succeeded(self, message: Message) -> None:
        self._in_flight.add(-1)
        self._counters.handled += 1
        self._tell(message, "handled")
        message.ack()

    def failed(self, message: Message, error: BaseException) -> None:
        self._in_flight.add(-1)
        self._counters.failed += 1
        log.error("%s: %s failed", self._subscription.title, message.title, exc_info=error)
        self._tell(message, "failed", f"{type(error).__name__}: {error}")
        if self._policy == ON_FAILURE:
            message.reject(requeue=True)
        elif self._policy == ON_FAILURE_DEAD_LETTER:
            message.reject(requeue=False)
        elif self._acknowledge == AFTER:
            message.ack()
        elif not message.settled:
            self._counters.unacknowledged += 1

    def abandoned(self, message: Message) -> None:
        """Handling was broken off, at the end of everything: the connection's end gives it back."""
        self._in_flight.add(-1)

    def _asks(self, refuses: Refuse, message: Message) -> bool:
        try:
            return bool(refuses(message))
        except Exception:
            # It is there to refuse for load; what it cannot say is no reason to.
            log.exception("%s: the reject policy failed for %s", self._subscription.title, message.title)
            return False

    def _tell(self, message: Message, outcome: str, error: str = "") -> None:
        if self._receipt == "Always" or (self._receipt == "OnSuccess" and outcome == "handled"):
            try:
                self._counters.receipts += message.send_receipt(outcome, error)
            except Exception:
                log.exception("%s: no receipt for %s", self._subscription.title, message.title)


def refusal_of(subscription: Subscription, in_flight: InFlight) -> Refuse | None:
    """What is asked before a message is handled, if anything is."""
    policy = subscription.reject_policy
    if callable(policy):
        return policy
    bound: Mapping[str, Any] = {}
    if isinstance(policy, Mapping):
        bound = policy[WHEN_OVERLOADED]
    elif policy != WHEN_OVERLOADED:
        return None if policy in REJECT_POLICIES else function_named(policy)
    return lambda message: overloaded(bound, in_flight.count)
