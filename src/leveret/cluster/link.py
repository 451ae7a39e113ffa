"""A link: what two nodes say to each other, as octets. Bytes go in and records come out; knows no socket and no time.

batch   := length u32 | crc32 u32 | number u64 | record*        `length` counts what follows the checksum, which is of that
record  := kind u8 | length u32 | octets

(1) Batches are numbered from 1, each way. One that is damaged, out of order or larger than 16 MiB is BadLink: nothing of
    it is given on, and the link is begun anew by whoever has the socket.
(2) Both begin with HELLO, and then prove with PROOF that they know the cluster's secret, which is never sent: it is a key
    to a digest of both nonces and both names, so that neither an old proof nor one's own can be given back.
(3) Whoever finds the other good says WELCOME. The link is open when both have; before that, nothing else is taken, and
    no more than 8 KiB.
(4) Whoever does not says REFUSED and why, and that is all.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterator
from typing import TypeVar
from zlib import crc32

import msgspec

VERSION = 1
SIZE_MAX = 16 << 20
GREETING_MAX = 8 << 10
HEAD_SIZE = 16
RECORD_HEAD_SIZE = 5

HELLO, PROOF, WELCOME, REFUSED = 1, 2, 3, 4
# What an open link carries: who is there and how far it is, where the log ends, what is asked of another's definitions.
BEAT, LOG_END, ASK_SNAPSHOT, SNAPSHOT = 5, 6, 7, 8
# And what a node says of itself to those who watch another one.
STATUS = 9

Record = tuple[int, bytes]
T = TypeVar("T")


class BadLink(Exception):
    """What came over a link is not what can have been sent; it must be begun anew."""


class Hello(msgspec.Struct):
    """Who is at one end. Nothing of it is believed before the proof."""

    version: int
    cluster: str
    node: str
    # Which data folder that is, and which run of it.
    id: str
    incarnation: int
    # Where its links and its engine's routes come in.
    host: str
    port: int
    engine_port: int
    # How many commands it has applied; none is a node that has never been in a cluster.
    applied: int
    nonce: str


class Refusal(msgspec.Struct):
    """Why a node may not come in: which rule, and a sentence."""

    rule: str
    text: str


class Link:
    """One end of one connection. `judge` says whether whoever has proved to know the secret may come in."""

    def __init__(self, hello: Hello, secret: bytes, judge: Callable[[Hello], Refusal | None], dialed: bool) -> None:
        self.mine = hello
        self.theirs: Hello | None = None
        self.dialed = dialed
        self.is_open = False
        # Why this end was refused, or why it has refused the other.
        self.refused: Refusal | None = None
        self.has_refused: Refusal | None = None
        self._secret = secret
        self._judge = judge
        self._welcomed = False
        self._sent = 0
        self._received = 0
        self._records: list[bytes] = []
        self._size = 0
        self._batches: list[bytes] = []
        self._buffer = bytearray()
        self._proved = False
        self._say(HELLO, msgspec.json.encode(hello))

    # Out

    def send(self, kind: int, octets: bytes) -> None:
        """Say something to an open link; it goes with the next `take_output`."""
        assert self.is_open
        self._say(kind, octets)

    def _say(self, kind: int, octets: bytes) -> None:
        size = RECORD_HEAD_SIZE + len(octets)
        if size > SIZE_MAX - HEAD_SIZE:
            raise ValueError(f"a record of {size} bytes is too large for a link")
        if self._size + size > SIZE_MAX - HEAD_SIZE:
            self._end_batch()
        self._records.append(bytes((kind,)) + len(octets).to_bytes(4, "big") + octets)
        self._size += size

    def _end_batch(self) -> None:
        if self._records:
            self._sent += 1
            self._batches.append(batch_of(self._sent, b"".join(self._records)))
            self._records = []
            self._size = 0

    def take_output(self) -> bytes:
        """What is to be sent now."""
        self._end_batch()
        found = b"".join(self._batches)
        self._batches = []
        return found

    # In

    def receive(self, data: bytes) -> list[Record]:
        """Take bytes that have come, and return what was said to this end; BadLink if it cannot have been."""
        self._buffer += data
        found: list[Record] = []
        while (octets := self._next_batch()) is not None:
            for kind, payload in records_of(octets):
                if self.is_open and kind > REFUSED:
                    found.append((kind, payload))
                else:
                    self._greet(kind, payload)
        return found

    def _next_batch(self) -> bytes | None:
        buffer = self._buffer
        if self.has_refused is not None or self.refused is not None or len(buffer) < HEAD_SIZE:
            return None
        length = int.from_bytes(buffer[:4], "big")
        if length + 8 > (SIZE_MAX if self.is_open else GREETING_MAX) or length < 8:
            raise BadLink(f"a batch of {length} bytes")
        if len(buffer) < 8 + length:
            return None
        number = int.from_bytes(buffer[8:16], "big")
        octets = bytes(buffer[HEAD_SIZE : 8 + length])
        if crc32(buffer[8 : 8 + length]) != int.from_bytes(buffer[4:8], "big"):
            raise BadLink(f"batch {self._received + 1} is damaged")
        if number != self._received + 1:
            raise BadLink(f"batch {number} after {self._received}")
        self._received = number
        del buffer[: 8 + length]
        return octets

    def _greet(self, kind: int, payload: bytes) -> None:
        if kind == REFUSED:
            self.refused = decoded(payload, Refusal)
        elif self.has_refused is not None or self.refused is not None:
            return
        elif kind == HELLO and self.theirs is None:
            self._on_hello(decoded(payload, Hello))
        elif kind == PROOF and self.theirs is not None and not self._proved:
            self._on_proof(payload, self.theirs)
        elif kind == WELCOME and self._proved and not self.is_open:
            self._welcomed = True
            self.is_open = self.has_refused is None
        else:
            raise BadLink(f"a record of kind {kind} where none can be")

    def _on_hello(self, hello: Hello) -> None:
        self.theirs = hello
        mine = self.mine
        if hello.cluster != mine.cluster:
            text = f"node '{mine.node}' is in the cluster '{mine.cluster}', not in '{hello.cluster}'"
            self._refuse(Refusal("cluster", text))
        elif hello.version < mine.version:
            text = f"node '{hello.node}' has version {hello.version} of what nodes say to each other, "
            self._refuse(Refusal("version", text + f"which is older than the cluster's, {mine.version}"))
        else:
            self._say(PROOF, proof(self._secret, self.dialed, mine, hello))

    def _on_proof(self, found: bytes, theirs: Hello) -> None:
        if not hmac.compare_digest(found, proof(self._secret, not self.dialed, theirs, self.mine)):
            self._refuse(
                Refusal("secret", f"node '{theirs.node}' does not have the secret of the cluster '{theirs.cluster}'")
            )
            return
        self._proved = True
        refusal = self._judge(theirs)
        if refusal is None:
            self._say(WELCOME, b"")
        else:
            self._refuse(refusal)

    def _refuse(self, refusal: Refusal) -> None:
        self.has_refused = refusal
        self.is_open = False
        self._say(REFUSED, msgspec.json.encode(refusal))


def proof(secret: bytes, by_dialer: bool, prover: Hello, other: Hello) -> bytes:
    """What only who knows the secret can say, of this connection and at this end of it."""
    words = ("leveret link", "dialer" if by_dialer else "listener", prover.nonce, other.nonce, prover.node, other.node)
    text = b"".join(len(word.encode()).to_bytes(4, "big") + word.encode() for word in (*words, prover.cluster))
    return hmac.new(secret, text, hashlib.sha256).digest()


def batch_of(number: int, octets: bytes) -> bytes:
    """A batch as it is sent."""
    checked = number.to_bytes(8, "big") + octets
    return len(checked).to_bytes(4, "big") + crc32(checked).to_bytes(4, "big") + checked


def records_of(octets: bytes) -> Iterator[Record]:
    """The records of a whole batch, of which none may be cut off: BadLink is said before any is given on."""
    found = []
    at = 0
    while at < len(octets):
        end = at + RECORD_HEAD_SIZE + int.from_bytes(octets[at + 1 : at + RECORD_HEAD_SIZE], "big")
        if at + RECORD_HEAD_SIZE > len(octets) or end > len(octets):
            raise BadLink("a record is cut off")
        found.append((octets[at], octets[at + RECORD_HEAD_SIZE : end]))
        at = end
    return iter(found)


def decoded(payload: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(payload, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadLink(f"not a {kind.__name__}: {error}") from None
