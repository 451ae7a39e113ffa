"""Bytes that are filled before anybody sees them."""

import pytest

from leveret.wire.unfilled import unfilled_bytes


@pytest.mark.parametrize("size", [2, 3, 4096, 1 << 20])
def test_bytes_are_what_was_written(size: int) -> None:
    content, view = unfilled_bytes(size)
    assert (type(content), len(content), len(view)) == (bytes, size, size)
    view[:] = b"\xa5" * size
    view[1:2] = b"x"
    assert content == b"\xa5x" + b"\xa5" * (size - 2)
    assert hash(content) == hash(bytes(content))


def test_each_is_another_one() -> None:
    one, view = unfilled_bytes(2)
    other, other_view = unfilled_bytes(2)
    view[:], other_view[:] = b"ab", b"cd"
    assert (one, other) == (b"ab", b"cd")


def test_nothing_is_written_once_the_view_is_released() -> None:
    _, view = unfilled_bytes(10)
    view.release()
    with pytest.raises(ValueError, match="released"):
        view[:1] = b"x"
