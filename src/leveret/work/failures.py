"""How often messages have failed, so that one that always fails is tried less and less often, or no more.

A broker delivers what it was given back at once, and to each of a subscription's threads; so the count is kept here, for all
of them. A message is known by its message-id, or else by all of it. Where the queue itself counts, its header
x-delivery-count is heeded too: it knows of other processes, and of times before this one.
"""

import threading
from collections import OrderedDict
from hashlib import blake2b

from leveret.work.message import Message

FIRST_S = 0.1
LONGEST_S = 60.0
# Those that failed least recently are forgotten beyond that.
KEPT_MAX = 10_000
COUNT_HEADER = "x-delivery-count"


class Failures:
    """Of one subscription's messages; for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: OrderedDict[bytes, int] = OrderedDict()

    def add(self, message: Message) -> int:
        """One more failure of this message; how many that is."""
        key = key_of(message)
        with self._lock:
            known = self._counts.pop(key, 0)
            # The first of a message that is like another one is not that one's next.
            count = max(known if message.redelivered else 0, delivery_count(message)) + 1
            self._counts[key] = max(known, count)
            if len(self._counts) > KEPT_MAX:
                self._counts.popitem(last=False)
        return count

    def forget(self, message: Message) -> None:
        """It will not come again."""
        if self._counts:
            key = key_of(message)
            with self._lock:
                self._counts.pop(key, None)


def pause_s(count: int) -> float:
    """How long to keep a message that has failed so often before it is given back: 100 ms, doubling to a minute."""
    return float(min(LONGEST_S, FIRST_S * 2 ** min(count - 1, 30)))


def key_of(message: Message) -> bytes:
    named = message.message_id
    parts = (b"id", named.encode(errors="replace")) if named else (b"", *message.octets)
    found = blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.digest()


def delivery_count(message: Message) -> int:
    """How often the broker says that it came back."""
    try:
        found = message.headers.get(COUNT_HEADER)
    except Exception:  # whatever came, it has failed, and is to be given back
        return 0
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0
