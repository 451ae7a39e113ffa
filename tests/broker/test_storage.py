"""Storage that keeps nothing."""

import pytest

from leveret.broker.storage import Storage


def test_nothing_is_paged_out_so_nobody_asks_for_a_stub() -> None:
    """SPEC §8.5: in memory all stays there."""
    storage = Storage()
    assert not storage.pages
    with pytest.raises(NotImplementedError):
        storage.stub(1, 1, 1, 0, False)
