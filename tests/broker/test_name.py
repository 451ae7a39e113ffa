"""Names of exchanges and queues."""

from leveret.broker.name import stripped


def test_line_ends_are_stripped_everywhere() -> None:
    assert stripped("\r\na\nb\r") == "ab"
