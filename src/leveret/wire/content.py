"""A message's content: its header and body frames, kept as they arrived.

  content := header frame | body frame*
  header frame's payload := class u16 | weight u16 | body size u64 | property flags u16 | properties

All body frames but the last carry `frame_size` octets. The channel numbers in them are whatever the publisher's were, the
same in all of them; where they are not the receiver's they are overwritten when the content is sent.
"""

from leveret.errors import SyntaxFault
from leveret.wire.frames import FRAME_OVERHEAD
from leveret.wire.properties import Properties, decode_properties
from leveret.wire.spec import FRAME_BODY, FRAME_END, FRAME_HEADER
from leveret.wire.values import check_table

FLAGS_AT = 7 + 12
PROPERTIES_AT = FLAGS_AT + 2
HEADER_MIN_SIZE = 14

FLAG_HEADERS = 0x2000
FLAG_REPLY_TO = 0x0200
FLAG_EXPIRATION = 0x0100
FLAG_USER_ID = 0x0010
PERSISTENT = 1 << 16
COPIED = 1 << 17
PRIORITY_SHIFT = 24
# The same as C numbers: what other modules import is a Python number, and a look-up for each message.
_PERSISTENT, _COPIED, _PRIORITY_SHIFT = PERSISTENT, COPIED, PRIORITY_SHIFT

END = bytes([FRAME_END])


def check_properties(content: bytes, header_size: int) -> int:
    """Check that the properties are whole and well formed; return their flags and what is added to them.

    Added are PERSISTENT for delivery mode 2, COPIED if there is a header CC or BCC, and from bit 24 on the priority.

    Nothing is decoded: a message is passed on as it came, but what would break a consumer must not get that far.
    RabbitMQ: the two lowest flags mean nothing.
    """
    p = content
    stop = 7 + header_size
    at = PROPERTIES_AT
    flags = p[FLAGS_AT] << 8 | p[FLAGS_AT + 1]
    found = flags
    left = flags & 0xFFFC
    bit = 15
    while left != 0:
        if left >> bit & 1:
            left ^= 1 << bit
            if at >= stop:
                raise SyntaxFault("properties are cut short")
            if bit == 13:
                if stop - at < 4:
                    raise SyntaxFault("properties are cut short")
                size = p[at]  # first into its variable: compiled, an octet shifted by 24 may come out negative
                size = size << 24 | p[at + 1] << 16 | p[at + 2] << 8 | p[at + 3]
                at += 4
                if size > stop - at:
                    raise SyntaxFault("properties are cut short")
                if check_table(content, at, at + size, 0):
                    found |= _COPIED
                at += size
            elif bit == 12:
                if p[at] == 2:
                    found |= _PERSISTENT
                at += 1
            elif bit == 11:
                priority = p[at]  # as above
                found |= priority << _PRIORITY_SHIFT
                at += 1
            elif bit == 6:
                at += 8
            else:
                at += 1 + p[at]
        bit -= 1
    if at != stop:
        raise SyntaxFault("properties do not fill their frame")
    return found


def properties_of(content: bytes, header_size: int) -> Properties:
    """Decode a content's properties."""
    return decode_properties(content, FLAGS_AT, 7 + header_size)


def body_of(content: bytes, header_size: int, body_size: int, frame_size: int) -> bytes:
    """The body, out of its frames."""
    at = header_size + FRAME_OVERHEAD
    parts = []
    while body_size > 0:
        size = min(body_size, frame_size)
        parts.append(content[at + 7 : at + 7 + size])
        at += size + FRAME_OVERHEAD
        body_size -= size
    return b"".join(parts)


def content_size(header_size: int, body_size: int, frame_size: int) -> int:
    """How long the frames of a message are."""
    frames = 0 if body_size == 0 else (body_size + frame_size - 1) // max(frame_size, 1)
    return header_size + FRAME_OVERHEAD + body_size + FRAME_OVERHEAD * frames


def frame_content(header: bytes, body: bytes | bytearray, frame_size: int, channel: int = 0) -> bytes:
    """Frame a header's payload and a body."""
    parts = [frame_head(FRAME_HEADER, channel, len(header)), header, END]
    for at in range(0, len(body), frame_size):
        piece = bytes(body[at : at + frame_size])
        parts += [frame_head(FRAME_BODY, channel, len(piece)), piece, END]
    return b"".join(parts)


def frame_head(kind: int, channel: int, size: int) -> bytes:
    """The seven octets before a payload."""
    return bytes([kind]) + channel.to_bytes(2, "big") + size.to_bytes(4, "big")
