"""Looking at messages that are paged out, and leaving them where they are.

Nothing holds them there meanwhile: they may be consumed, and their segment removed, before it is their turn to be read.
That is no damage, and must not stop the broker; whoever looks hears that they have gone.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.broker.message import Entry
from leveret.broker.pages import Page
from leveret.broker.queue import Queue
from leveret.store.page_transfer import Reading

if TYPE_CHECKING:
    from leveret.store.pager import PagedStorage

log = logging.getLogger("leveret.store")


class Peek:
    """Copies of a queue's records being read. `read` runs in the committer's thread."""

    __slots__ = ("_done", "_gone", "_reading")

    def __init__(self, store: "PagedStorage", queue: Queue, page: Page, done: Callable[[list[Entry] | None], None]) -> None:
        self._done = done
        self._gone = False
        self._reading = Reading(store, queue, page)

    def is_taken(self) -> bool:
        return self._reading.is_taken()

    def read(self) -> int:
        try:
            return self._reading.read()
        except Exception as error:  # of a file that is closed or gone anything may come
            log.debug("a peek found nothing: %s", error)
            self._gone = True
            return 0

    def end(self) -> None:
        self._reading.end()

    def finish(self, store: "PagedStorage") -> None:
        """Give what was read to whoever looks."""
        entries = None
        if not self._gone:
            try:
                entries = self._reading.entries()
            except Exception as error:  # so of what was overwritten
                log.debug("a peek found something else: %s", error)
        self._done(entries)
