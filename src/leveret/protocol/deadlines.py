"""The acknowledgement timeout: whether a client keeps a delivery longer than it may.

Costs a message nothing: now and then the next delivery tag is noted with the time, and whatever is outstanding below a
tag noted long enough ago is overdue. So it is found out late by up to the time between two looks.

RabbitMQ: of a channel's deliveries only the oldest is looked at, and its queue may have a timeout of its own.
"""

import logging
from typing import TYPE_CHECKING

from leveret.errors import PreconditionFailed
from leveret.protocol.states import CHANNEL_OPEN
from leveret.protocol.unacked import Unacked

if TYPE_CHECKING:
    from leveret.protocol.session import Session

log = logging.getLogger("leveret.connection")

LOOK_MS = 60_000
NOTES_MAX = 1024


def look_every_ms(timeout_ms: int) -> int:
    """How often to look; a queue may have a timeout where the broker has none (0)."""
    return max(1, min(LOOK_MS, timeout_ms // 4)) if timeout_ms else LOOK_MS


class Deadlines:
    """The tags noted on one channel, oldest first."""

    __slots__ = ("_noted",)

    def __init__(self) -> None:
        self._noted: list[tuple[int, int]] = []

    def overdue(self, unacked: Unacked, now: int, timeout_ms: int) -> int | None:
        """The timeout that the oldest delivery has outlasted, its queue's or this one (0 is none); None if it has not.

        Notes how far the tags are now.
        """
        first = unacked.first_tag()
        if not first:
            self._noted.clear()
            return None
        # What was noted before the oldest was delivered says nothing any more.
        while self._noted and self._noted[0][1] <= first:
            del self._noted[0]
        if not self._noted or self._noted[-1][1] != unacked.next_tag:
            self._noted.append((now, unacked.next_tag))
            if len(self._noted) > NOTES_MAX:
                # Of what has been outstanding for so long the time need not be known so well.
                del self._noted[1::2]
        own = unacked.entry(first).queue.settings.consumer_timeout_ms
        limit = own if own is not None else timeout_ms or None
        return limit if limit is not None and now - self._noted[0][0] >= limit else None


def close_overdue(session: "Session", now: int, timeout_ms: int) -> None:
    """Close the channels on which the client keeps a delivery for too long, until one must be closed in pieces."""
    for channel in list(session.channels.values()):
        overdue = channel.deadlines.overdue(channel.unacked, now, timeout_ms)
        if overdue is not None and channel.state == CHANNEL_OPEN:
            error = PreconditionFailed(
                f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: {overdue} ms. "
                "This timeout value can be configured, see consumers doc guide to learn more"
            )
            log.error("%s: channel %d: %s", session.connection_name, channel.number, error.reply_text)
            channel.fail(error, 0)
            if session.pending is not None:
                break
