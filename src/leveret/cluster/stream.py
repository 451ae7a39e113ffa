"""A stream: one JetStream stream as a log that one writer at a time appends to.

  message := headers | octets
  headers := Leveret-Epoch: which leader's | Leveret-Writer: which process's and which time's | others, of whoever appends

  (1) One append is in flight. It names the sequence that must be the last one, and is stored behind it or not at all: who
      knows of the newest message is the writer, and whoever appends without knowing it is refused. That is the fence.
  (2) An append that was acknowledged is committed and synced on a majority.
  (3) After one whose outcome is unknown the tail is read before anything else: if ours is there it is stored; if nothing
      is, the same is appended again, which cannot store it twice; if another's is, we are deposed.
  (4) After an append that failed nothing is appended any more.
  (5) From the first sequence to the last there are no gaps, as only whole beginnings are purged. A replica that lags says
      that there is nothing: whatever must be there is asked for again.
  (6) A stream that is missing, or shorter than it was seen, is never appended to, nor made again.

Knows nothing of files.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from errno import EIO
from time import monotonic
from typing import TypeVar

from leveret.cluster.nats import Address, Client, Down, Fault, Placed, Refused, State, Stored, Unknown
from leveret.cluster.seen import Seen

PATIENCE_S = 30.0
# How long what must be there is asked for, of replicas that may lag.
LAG_S = 10.0
PAUSE_S = 0.05
SHORT_PAUSE_S = 0.002
READ_COUNT = 256
READ_SIZE = 1 << 20
# What was read last is kept: a head, a place and a record of one message are asked for one after the other.
KEPT_SIZE = 2 << 20

EPOCH = "Leveret-Epoch"
WRITER = "Leveret-Writer"

# JetStream's codes: no such stream; not enough servers are there; the cluster, or the stream in it, has no leader just now.
NOT_FOUND = 10059
NO_PEERS = 10005
UNAVAILABLE = (10008, 10009, 10074, 10118)

# Heard, with the stream's name behind it, when another server leads one.
LEADER_ELECTED = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED"

T = TypeVar("T")

log = logging.getLogger("leveret.cluster")


class Deposed(OSError):
    """Another writer has taken the log over: what was to be appended is not stored, and never will be."""


class Lost(OSError):
    """The stream is missing, or shorter than it was seen."""


class Missing(OSError):
    """A message that must be there is not, or is not any more."""

    def __init__(self, stream: str, seq: int) -> None:
        super().__init__(EIO, f"{stream}: message {seq} is missing")


class Stream:
    """One stream, read up to `last_seq`, of whose leaders the newest known is that of `epoch`.

    Appending is for one thread at a time, reading for any. `seen` knows how far it was seen to reach.
    """

    def __init__(
        self, address: Address, name: str, seen: Seen | None = None, patience_s: float = PATIENCE_S, lag_s: float = LAG_S
    ) -> None:
        self.name = name
        self.first_seq = 1
        self.last_seq = 0
        self.epoch = 0
        self.failed: OSError | None = None
        self._seen = seen
        self._patience_s = patience_s
        self._lag_s = lag_s
        self._writer_id = os.urandom(8).hex()
        self._writer = Client(address)
        self._reader = Client(address)
        self._reading = threading.Lock()
        self._given_up = threading.Event()
        # Octets that were read last, by their sequences, the oldest first; and those that are nowhere.
        self._kept: dict[int, bytes] = {}
        self._kept_size = 0
        self._holes: set[int] = set()

    @property
    def subject(self) -> str:
        return f"leveret.log.{self.name}"

    def create(self, replicas: int = 1, tags: list[str] | None = None, storage: str = "file") -> None:
        """Make it, once and for all."""
        found: dict[str, object] = {"placement": {"tags": tags}} if tags else {}
        self._patiently(
            lambda: self._writer.ask_jetstream(
                f"STREAM.CREATE.{self.name}",
                name=self.name,
                subjects=[self.subject],
                num_replicas=replicas,
                storage=storage,
                discard="new",
                allow_direct=True,
                deny_delete=True,
                **found,
            ),
            (NO_PEERS, *UNAVAILABLE),
        )

    def placed(self) -> Placed:
        """Which servers have it, and which of them leads; "" if none does just now."""
        with self._reading:
            found = self._patiently(lambda: self._reader.ask_jetstream(f"STREAM.INFO.{self.name}")).cluster
        return found or Placed()

    def move_to(self, node: str) -> None:
        """Have the server of this node lead it, which must have it: there appending is quickest."""
        with self._reading:
            self._reader.ask_jetstream(f"STREAM.LEADER.STEPDOWN.{self.name}", placement={"preferred": node})

    def give_up(self) -> None:
        """Have whatever waits in other threads fail, now and later."""
        self._given_up.set()
        self._writer.interrupt()
        self._reader.interrupt()

    def close(self) -> None:
        """Let the connections go; nobody appends any more."""
        self.give_up()
        self._writer.close()
        with self._reading:
            self._reader.close()

    def _patiently(self, ask: Callable[[], T], retried: tuple[int, ...] = UNAVAILABLE) -> T:
        """Ask again while nobody answers, of what may be done twice."""
        deadline = monotonic() + self._patience_s
        while True:
            try:
                return ask()
            except (Unknown, Down, Fault) as error:
                if isinstance(error, Fault) and error.code not in retried:
                    raise
                if self._given_up.wait(PAUSE_S) or monotonic() > deadline:
                    raise

    # Reading

    def _state(self, client: Client) -> State:
        """What the stream's leader says of it; Lost if there is none, or less than there was."""
        deadline = monotonic() + self._lag_s
        while True:
            try:
                found = self._patiently(lambda: client.ask_jetstream(f"STREAM.INFO.{self.name}")).state
                assert found is not None
                seen = max(self.last_seq, self._seen.seq if self._seen else 0)
                if found.last_seq >= seen:
                    return found
                text = f"{self.name} ends at {found.last_seq}, and was seen to reach {seen}"
            except Fault as fault:
                if fault.code != NOT_FOUND:
                    raise
                text = f"the stream {self.name} is missing"
            # Who answers may lead no longer, or not know yet.
            if self._given_up.wait(PAUSE_S) or monotonic() > deadline:
                raise Lost(text)

    def read_on(self) -> Iterator[Stored]:
        """All that is behind `last_seq`, up to what is the last now. Each raises it, and the epoch."""
        with self._reading:
            state = self._state(self._reader)
        self.first_seq = state.first_seq
        if self.last_seq == 0:
            self.last_seq = self.first_seq - 1 if state.messages else state.last_seq
        while self.last_seq < state.last_seq:
            for message in self._fetch_next(state.last_seq):
                self.last_seq = message.seq
                self.epoch = max(self.epoch, int(message.headers.get(EPOCH, "0")))
                yield message
        if self._seen is not None:
            self._seen.write(self.last_seq)

    def _fetch_next(self, last_seq: int) -> list[Stored]:
        """The next messages. What was purged meanwhile is passed over, and what no replica has, which is said."""
        seq = self.last_seq + 1
        try:
            with self._reading:
                return self._fetch(seq, READ_COUNT, READ_SIZE)
        except Missing:
            if self.first_seq > seq:
                self.last_seq = self.first_seq - 1
                return []
        log.error("%s: message %d of %d is missing", self.name, seq, last_seq)
        self.last_seq = seq
        return []

    def _fetch(self, seq: int, count: int, size: int) -> list[Stored]:
        """Messages from this one on, without gaps; Missing if the first one is not there."""
        if seq in self._holes:
            raise Missing(self.name, seq)
        deadline = monotonic() + self._lag_s
        pause = SHORT_PAUSE_S
        while True:
            try:
                found = self._reader.read_on(self.name, seq, count, size)
            except (Unknown, Down):
                found = []
            whole = [message for number, message in enumerate(found) if message.seq == seq + number]
            if whole:
                return whole
            if found or pause >= PAUSE_S:
                self.first_seq = max(self.first_seq, self._state(self._reader).first_seq)
            if self.first_seq > seq:
                raise Missing(self.name, seq)
            if self._given_up.wait(pause) or monotonic() > deadline:
                self._holes.add(seq)
                raise Missing(self.name, seq)
            pause = min(2 * pause, PAUSE_S)

    def read(self, seq: int) -> bytes:
        """The octets of a message that must be there. Those behind it are read with it, if the one before was asked for."""
        with self._reading:
            found = self._kept.get(seq)
            if found is None:
                count = READ_COUNT if seq - 1 in self._kept else 1
                for message in self._fetch(seq, count, READ_SIZE):
                    self._keep(message)
                found = self._kept[seq]
            return found

    def _keep(self, message: Stored) -> None:
        if message.seq in self._kept:
            return
        # The messages of one reading fit.
        while self._kept and self._kept_size + len(message.payload) > KEPT_SIZE:
            self._kept_size -= len(self._kept.pop(next(iter(self._kept))))
        self._kept[message.seq] = message.payload
        self._kept_size += len(message.payload)

    # Writing

    def begin_epoch(self, who: str) -> bool:
        """Become the writer; False if the log has gone on, and is to be read on before."""
        self._check()
        self.epoch += 1
        try:
            self._append({"Leveret-Leader": who}, b"")
        except Refused:
            self.epoch -= 1
            return False
        return True

    def append(self, headers: dict[str, str], octets: bytes | memoryview) -> int:
        """Store a message, and return its sequence; Deposed if another writer was before us."""
        self._check()
        try:
            return self._append(headers, octets)
        except Refused as error:
            self.failed = Deposed(f"{self.name}: another node leads: {error}")
            raise self.failed from error
        except OSError as error:
            self.failed = error
            raise

    def _check(self) -> None:
        if self.failed is not None:
            raise self.failed

    def _append(self, headers: dict[str, str], octets: bytes | memoryview) -> int:
        headers = {EPOCH: str(self.epoch), WRITER: self._writer_id, **headers}
        deadline = monotonic() + self._patience_s
        doubtful = False
        while True:
            try:
                return self._stored(self._writer.append(self.subject, headers, octets, self.last_seq))
            except Refused:
                if self._state(self._writer).last_seq > self.last_seq:
                    # What is in the way may be ours, of an attempt whose answer was lost.
                    if doubtful and self._is_ours(self.last_seq + 1):
                        return self._stored(self.last_seq + 1)
                    raise
                # Nothing is in the way: what was before us, or who has just been elected, is not there yet.
                if self._given_up.wait(SHORT_PAUSE_S) or monotonic() > deadline:
                    raise
            except (Unknown, Down, Fault) as error:
                if isinstance(error, Fault) and error.code not in UNAVAILABLE:
                    raise
                doubtful = True
                log.warning("%s: %s; its tail is read", self.name, error)
                if self._given_up.wait(PAUSE_S) or monotonic() > deadline:
                    raise
                if self._state(self._writer).last_seq > self.last_seq:
                    if self._is_ours(self.last_seq + 1):
                        return self._stored(self.last_seq + 1)
                    raise Refused(f"{self.name}: message {self.last_seq + 1} is another's") from error

    def _stored(self, seq: int) -> int:
        """It is committed as this message."""
        if seq != self.last_seq + 1:
            raise Lost(f"{self.name}: a message was stored as {seq} behind {self.last_seq}")
        self.last_seq = seq
        if self._seen is not None:
            self._seen.note(seq)
        return seq

    def _is_ours(self, seq: int) -> bool:
        with self._reading:
            return self._fetch(seq, 1, READ_SIZE)[0].headers.get(WRITER) == self._writer_id

    def purge(self, seq: int) -> None:
        """Have everything before this sequence removed."""
        self._check()
        if seq > self.first_seq:
            self._patiently(lambda: self._writer.ask_jetstream(f"STREAM.PURGE.{self.name}", seq=seq))
            self.first_seq = seq
