"""The pager alone, without anybody who writes; with one it is in `test_paging.py`."""

import pytest
from tests.store.support import Rig

from leveret.broker.pages import Page, Sizes
from leveret.store.page_transfer import Reading
from leveret.store.pager import PagedStorage


def test_who_reads_is_said_by_the_store() -> None:
    rig = Rig()
    pager = PagedStorage(rig.store.journal, rig.store.spill, Sizes())
    reading = Reading(pager, rig.vhost.declare_queue("q"), Page(1))
    with pytest.raises(NotImplementedError):
        pager.can_read()
    with pytest.raises(NotImplementedError):
        pager.have_read(reading, lambda error: None)
    with pytest.raises(NotImplementedError):
        pager.is_ended(None)
    with pytest.raises(NotImplementedError):
        pager.read_done()
