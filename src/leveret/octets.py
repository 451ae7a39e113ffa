"""Numbers in buffers, little-endian, as what is kept has them. (AMQP's own are big-endian: `wire/values.py`.)

Nothing is checked: whoever calls knows that the octets are there, and that the number fits.
"""


def put_u16(p: bytearray, at: int, value: int) -> None:
    p[at] = value & 255
    p[at + 1] = value >> 8 & 255


def put_u32(p: bytearray, at: int, value: int) -> None:
    p[at] = value & 255
    p[at + 1] = value >> 8 & 255
    p[at + 2] = value >> 16 & 255
    p[at + 3] = value >> 24 & 255


def put_u64(p: bytearray, at: int, value: int) -> None:
    # Without a mask: compiled, one of 32 bits would be a Python number, and make of this one such too.
    put_u32(p, at, value)
    put_u32(p, at + 4, value >> 32)


def u16_at(p: bytes | bytearray, at: int) -> int:
    # First into its variable, here and below: compiled, an octet that is shifted is an int and may come out negative.
    value = p[at + 1]
    return value << 8 | p[at]


def u32_at(p: bytes | bytearray, at: int) -> int:
    value = p[at + 3]
    value = value << 8 | p[at + 2]
    value = value << 8 | p[at + 1]
    return value << 8 | p[at]


def u64_at(p: bytes | bytearray, at: int) -> int:
    high = u32_at(p, at + 4)
    return high << 32 | u32_at(p, at)
