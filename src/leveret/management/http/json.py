"""JSON: the type of its values, and how ours are written in it."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from leveret.management.http.json_names import all_as_text

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
# What the views of objects are.
JsonObject: TypeAlias = dict[str, Json]


def _plain(value: object) -> Json:
    """What JSON has for a value of ours: the integers and floats of AMQP's other sizes are numbers too."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


def as_json(value: object) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:
        # A name has octets that are no text, which is rare.
        return _encode(all_as_text(value))
