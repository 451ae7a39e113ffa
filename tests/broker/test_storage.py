"""Storage that keeps nothing."""

import pytest

from leveret.broker.message import Origin, new_message
from leveret.broker.storage import Log, Storage


def test_nothing_is_paged_out_so_nobody_asks_for_a_stub() -> None:
    """SPEC §8.5: in memory all stays there."""
    storage = Storage()
    assert not storage.can_page
    with pytest.raises(NotImplementedError):
        storage.stub(1, 1, 1, 0, False)


def test_what_a_log_does_is_said_by_those_there_are() -> None:
    with pytest.raises(NotImplementedError):
        Log().append(new_message(Origin("", "q", b""), b"", 14, 0, 1, 0), [])
