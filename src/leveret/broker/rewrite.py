"""Messages written anew: the same body with other properties, or another origin.

A message is never changed, and passes as it came; whoever must say something in its headers has it written anew.
"""

from leveret.broker.message import Message, Origin, new_message
from leveret.wire.content import END, body_of, check_properties, frame_content, properties_of
from leveret.wire.properties import Properties, encode_properties
from leveret.wire.values import Table, encode_short_string


def rewritten(message: Message, properties: Properties, origin: Origin) -> Message:
    """The same message with other properties; it has its time to live as long as it has an expiration."""
    header = message.content[7:19] + encode_properties(properties)
    body = body_of(message.content, message.header_size, message.body_size, message.frame_size)
    content = frame_content(header, body, message.frame_size or 1)
    flags = check_properties(content, len(header))
    anew = new_message(origin, content, len(header), message.body_size, message.frame_size, flags)
    if properties.expiration is not None:
        anew.ttl_ms = message.ttl_ms
    return anew


def counted(message: Message, delivery_count: int) -> Message:
    """The same message, saying how often it was given back."""
    properties = properties_of(message.content, message.header_size)
    properties.headers = {**(properties.headers or {}), "x-delivery-count": delivery_count}
    return rewritten(message, properties, message.origin)


def make_origin(exchange: str, routing_key: str, blind: tuple[str, ...] = ()) -> Origin:
    address = encode_short_string(exchange) + encode_short_string(routing_key) + END
    return Origin(exchange, routing_key, address, blind)


def carbon_copies(headers: Table, name: str) -> list[str]:
    """More routing keys, from a header CC or BCC."""
    keys = headers.get(name)
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
