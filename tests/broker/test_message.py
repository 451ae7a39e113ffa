"""Messages and their places."""

import gc

from leveret.broker import message
from leveret.broker.message import Origin, new_entry, new_message


def test_message_is_what_was_published() -> None:
    origin = Origin("x", "k", b"\x01x\x01k\xce")
    assert (origin.exchange, origin.routing_key, origin.address) == ("x", "k", b"\x01x\x01k\xce")
    message = new_message(origin, b"content", 14, 5, 4088, 0x1000)
    assert message.origin is origin
    assert (message.content, message.header_size, message.body_size) == (b"content", 14, 5)
    assert (message.frame_size, message.flags, message.ttl_ms) == (4088, 0x1000, -1)


def test_new_place_knows_of_nobody() -> None:
    message = new_message(Origin("", "", b""), b"", 14, 0, 1, False)
    entry = new_entry(message, 7)
    assert (entry.message, entry.seq) == (message, 7)
    nobody: tuple[object, ...] = (entry.queue, entry.consumer, entry.next)
    assert nobody == (None, None, None)
    assert (entry.redelivered, entry.tag) == (False, 0)


def test_compiled_messages_are_no_matter_for_the_garbage_collector() -> None:
    """With millions of them in queues a collection would stop the loop for half a second."""
    made = new_message(Origin("", "", b""), b"", 14, 0, 1, 0)
    compiled = not str(message.__file__).endswith(".py")
    assert [gc.is_tracked(thing) for thing in (made, new_entry(made, 1))] == [not compiled] * 2
