"""What stands in the log of definitions: commands of the model, and who comes and goes, as octets and back.

  message := head LF entry (LF entry)*        head is JSON: who has written it, and the number of its first entry
  entry   := a command as `broker/command.py` writes it, or the same of Started and Forgotten

An entry's id is the node, its incarnation and a number that goes up: who has applied one applies none that is not higher.
"""

import json
from typing import NamedTuple

import msgspec

from leveret.broker.command import Command, decode, encode
from leveret.cluster.members import Member

# A message holds at most so much beside its last entry, and so many entries.
MESSAGE_SIZE = 256 << 10
MESSAGE_ENTRIES = 256


class Started(msgspec.Struct, frozen=True):
    """A node has come in, or was started again: what belonged to its connections is gone."""

    member: Member


class Forgotten(msgspec.Struct, frozen=True):
    """A node will not come back: its queues are gone."""

    node: str


Change = Command | Started | Forgotten


class EntryId(NamedTuple):
    """Which entry it is."""

    node: str
    incarnation: int
    number: int


class Head(msgspec.Struct):
    """The first line of a message."""

    node: str
    incarnation: int
    first: int


def encode_change(change: Change) -> bytes:
    if isinstance(change, Started):
        return json.dumps({"command": "Started", "member": msgspec.to_builtins(change.member)}).encode()
    if isinstance(change, Forgotten):
        return json.dumps({"command": "Forgotten", "node": change.node}).encode()
    return encode(change)


def decode_change(octets: bytes) -> Change:
    found = json.loads(octets)
    if found["command"] == "Started":
        return Started(msgspec.convert(found["member"], Member))
    if found["command"] == "Forgotten":
        return Forgotten(found["node"])
    return decode(octets)


def message_of(first: EntryId, entries: list[bytes]) -> bytes:
    """Entries with numbers one after the other, as one message."""
    return b"\n".join((msgspec.json.encode(Head(*first)), *entries))


def entries_of(message: bytes) -> list[tuple[EntryId, Change]]:
    head, *lines = message.split(b"\n")
    found = msgspec.json.decode(head, type=Head)
    return [(EntryId(found.node, found.incarnation, found.first + at), decode_change(line)) for at, line in enumerate(lines)]
