"""Looking at what is paged out."""

from typing import cast

import pytest
from tests.store.support import Rig, body, letter

from leveret.broker.message import Entry
from leveret.broker.pages import Page
from leveret.broker.queue import Queue
from leveret.store.disk import File

SIZE = 1 << 20
COUNT = 40

Told = list[list[Entry] | None]


@pytest.fixture(params=[1, 2])
def rig(request: pytest.FixtureRequest) -> Rig:
    """A queue that has more than fits its window, transient or persistent."""
    rig = Rig(segment_size=8 << 20)
    rig.queue("q")
    for number in range(COUNT):
        rig.publish(letter(b"%d" % number + b"." * SIZE, delivery_mode=request.param))
        rig.turn()
    rig.settle_down()
    return rig


def copy_of_records(queue: Queue) -> Page:
    page = Page(100)
    for record in queue.backlog.pages.span(0, 100):
        page.add(*record)
    assert page.count > 5
    return page


class Broken:
    """A file that is not what it was."""

    def __init__(self, octets: bytes | None) -> None:
        self._octets = octets

    def read(self, at: int, size: int) -> bytes:
        if self._octets is None:
            raise ValueError("closed")
        return self._octets * min(size, 4 * SIZE)


def test_what_is_paged_out_is_shown_and_stays(rig: Rig) -> None:
    """SPEC §9.4."""
    queue = rig.vhost.queues["q"]
    count = queue.backlog.pages.count
    told: Told = []
    rig.store.peek(queue, copy_of_records(queue), told.append)
    rig.settle_down()
    (entries,) = told
    assert entries is not None
    first = int(body(entries[0].message).rstrip(b"."))
    assert [int(body(entry.message).rstrip(b".")) for entry in entries] == list(range(first, first + len(entries)))
    assert [entry.seq for entry in entries] == list(range(first + 1, first + 1 + len(entries)))
    assert queue.backlog.pages.count == count


@pytest.mark.parametrize("octets", [None, b"\x00", b"\xff", b""])
def test_what_has_gone_is_told_and_harms_nobody(rig: Rig, octets: bytes | None) -> None:
    """SPEC §9.4: a segment may be removed before it is read; the broker must not stop for that."""
    queue = rig.vhost.queues["q"]
    told: Told = []
    rig.committer.held = True
    rig.store.peek(queue, copy_of_records(queue), told.append)
    files = {}
    for log in (rig.store.journal, rig.store.spill):
        for segment in log.segments.values():
            files[segment] = segment.file
            segment.file = cast(File, Broken(octets))
    rig.committer.run()
    for segment, file in files.items():
        segment.file = file
    # What can be read and is not what was written is damaged, and left out.
    assert told == [None if octets is None else []]
    assert rig.failures == []
