"""Waits that double: before a connection is tried again, after a refusal, and before a failed message is requeued.

A broker redelivers a requeued message at once, and to any of a subscription's threads; so failures are counted here, for all
of them, also for DeliveryLimit. A message is identified by its message-id, or else by its whole content. If the queue counts
too (x-delivery-count), the higher count holds: the queue's includes other processes, and earlier runs.
"""

import random
import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

from leveret.work.message import Message

RECONNECT_FIRST_S, RECONNECT_MAX_S = 2.0, 300.0
# A delay is lengthened by up to this part of it, so that many workers do not come back at once.
JITTER = 0.2
ATTEMPTS = 5

REFUSAL_FIRST_S, REFUSAL_MAX_S = 0.1, 5.0

REQUEUE_FIRST_S, REQUEUE_MAX_S = 0.1, 60.0
# Beyond that the messages that failed least recently are forgotten.
COUNTED_MAX = 10_000
COUNT_HEADER = "x-delivery-count"


def doubled_s(first_s: float, count: int) -> float:
    """The wait after `count` failures, with no upper limit; `count` may be any number."""
    return float(first_s * 2 ** min(count - 1, 30))


class ReconnectBackoff:
    """Counts network failures in a row. `attempts` is after how many to give up, 0 for never."""

    def __init__(self, min_listen_ms: int, attempts: int = ATTEMPTS, chance: Callable[[], float] = random.random) -> None:
        self._min_listen_s = min_listen_ms / 1000
        self._attempts = attempts
        self._chance = chance
        self.failures = 0

    def delay_s(self, listened_s: float) -> float | None:
        """The connection has ended after `listened_s`: how long to wait, or None to give up."""
        if listened_s >= self._min_listen_s:
            # Long enough not to count as a failure.
            self.failures = 0
            return 0.0
        self.failures += 1
        if self._attempts and self.failures >= self._attempts:
            return None
        return min(RECONNECT_MAX_S, doubled_s(RECONNECT_FIRST_S, self.failures) * (1 + JITTER * self._chance()))


class RefusalBackoff:
    """How long a thread pauses after it has refused a message: 100 ms, doubling to 5 s."""

    def __init__(self) -> None:
        self._refusals = 0

    def next_s(self) -> float:
        self._refusals += 1
        return min(REFUSAL_MAX_S, doubled_s(REFUSAL_FIRST_S, self._refusals))

    def reset(self) -> None:
        """A message was not refused."""
        self._refusals = 0


class FailureCounts:
    """How often each of a subscription's messages has failed; for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: OrderedDict[bytes, int] = OrderedDict()

    def add(self, message: Message) -> int:
        """One more failure of this message; how many that is."""
        key = key_of(message)
        with self._lock:
            known = self._counts.pop(key, 0)
            # A first delivery is another message that only looks the same.
            count = max(known if message.redelivered else 0, delivery_count(message)) + 1
            self._counts[key] = max(known, count)
            if len(self._counts) > COUNTED_MAX:
                self._counts.popitem(last=False)
        return count

    def forget(self, message: Message) -> None:
        """The message will not be delivered again."""
        if self._counts:
            key = key_of(message)
            with self._lock:
                self._counts.pop(key, None)


def requeue_delay_s(failures: int) -> float:
    """How long to keep a message that has failed so often before it is requeued: 100 ms, doubling to a minute."""
    return min(REQUEUE_MAX_S, doubled_s(REQUEUE_FIRST_S, failures))


def key_of(message: Message) -> bytes:
    """What identifies a message: a digest of its message-id, or of all of it."""
    message_id = message.message_id
    parts = (b"id", message_id.encode(errors="replace")) if message_id else (b"", *message.octets)
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def delivery_count(message: Message) -> int:
    """How often the queue says that the message was requeued."""
    try:
        count = message.headers.get(COUNT_HEADER)
    except Exception:  # it has failed and must be requeued, whatever its properties are
        return 0
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0
