"""The stream of definitions: one thread appends what this node proposes, another reads on what all have.

Every node appends, so no sequence is expected; an append whose outcome is unknown is made again, as whoever reads drops what
is there twice. Neither thread touches the model: what was read is given to the loop, in order.

  (1) A stream that is missing, or ends before what this node has applied, is not read and never made anew: `fault` says so.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from leveret.cluster.commands import MESSAGE_ENTRIES, MESSAGE_SIZE, EntryId, message_of
from leveret.cluster.nats import Address, Client, Fault, NatsError, Stored, answer_of
from leveret.cluster.stream import NOT_FOUND

STREAM = "definitions"
SUBJECT = f"leveret.{STREAM}"
KEPT_MESSAGES = 1_000_000
# Without news it is looked at so often; and how soon again where something must be there.
LOOK_S = 0.5
SOON_S = 0.002
PAUSE_S = 0.1
SHORT_S = 1.0
READ_COUNT = 256
READ_SIZE = 1 << 20

log = logging.getLogger("leveret.cluster")


@dataclass(slots=True)
class Pending:
    """An entry that is to be appended. Once `given_up` it is tried no more; if it was, it may be in the log all the same."""

    id: EntryId
    octets: bytes
    given_up: bool = False
    tried: bool = False


class DefinitionLog:
    """The two threads. `on_read` gets the messages, `on_appended` where the log has come to; both are called on the loop."""

    def __init__(
        self,
        call_soon: Callable[..., object],
        on_read: Callable[[list[Stored]], None],
        on_appended: Callable[[int], None],
    ) -> None:
        self._call_soon = call_soon
        self._on_read = on_read
        self._on_appended = on_appended
        self._reader: Client | None = None
        self._writer: Client | None = None
        self._pending: deque[Pending] = deque()
        self._has_pending = threading.Event()
        self._news = threading.Event()
        self._closed = threading.Event()
        self._last = 0
        self._wanted = 0
        # Why it is not read, if it is not; and whether the reason is that what comes next is not kept any more.
        self.fault = ""
        self.behind = False
        self._threads: list[threading.Thread] = []

    def open(self, address: Address) -> None:
        """Have somebody to ask, who may not know yet."""
        self._address = address
        self._reader = Client(address, SHORT_S)
        self._writer = Client(address)

    def start(self, applied: int) -> None:
        """Append what was given so far, and read on behind what is applied."""
        self._last = applied
        for run in (self._write, self._read):
            thread = threading.Thread(target=run, name=f"leveret-definitions-{run.__name__}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """End both; what was not appended is not."""
        self._closed.set()
        self._has_pending.set()
        self._news.set()
        for thread in self._threads:
            thread.join()
        for client in (self._reader, self._writer):
            if client is not None:
                client.close()

    def append(self, pending: Pending) -> None:
        self._pending.append(pending)
        self._has_pending.set()

    def want(self, seq: int) -> None:
        """Somebody has said that it reaches this sequence."""
        if seq > self._wanted:
            self._wanted = seq
            self._news.set()

    def skip_to(self, seq: int) -> None:
        """What is up to there is known otherwise."""
        self._last = max(self._last, seq)
        self.behind = False

    # Before the threads run, or beside them with a client of one's own

    def exists(self) -> bool:
        """Whether it is there; NatsError if nobody can say."""
        assert self._reader is not None
        try:
            self._reader.ask_jetstream(f"STREAM.INFO.{STREAM}")
        except Fault as fault:
            if fault.code == NOT_FOUND:
                return False
            raise
        return True

    def create(self, replicas: int) -> None:
        """Make it, once and for all; twice is no harm."""
        self._configure("CREATE", replicas)

    def spread(self, replicas: int) -> bool:
        """Have it on so many nodes."""
        return self._configure("UPDATE", replicas)

    def replace(self, node: str) -> bool:
        """Have it on another node in the place of this one; Fault if that has none of it, or there is no other."""
        client = Client(self._address, SHORT_S)
        try:
            client.ask_jetstream(f"STREAM.PEER.REMOVE.{STREAM}", peer=node)
        finally:
            client.close()
        return True

    def _configure(self, verb: str, replicas: int) -> bool:
        client = Client(self._address, SHORT_S)
        try:
            self._ask_to(client, verb, replicas)
        finally:
            client.close()
        return True

    def _ask_to(self, client: Client, verb: str, replicas: int) -> None:
        client.ask_jetstream(
            f"STREAM.{verb}.{STREAM}",
            name=STREAM,
            subjects=[SUBJECT],
            num_replicas=replicas,
            storage="file",
            max_msgs=KEPT_MESSAGES,
            discard="old",
            allow_direct=True,
            deny_delete=True,
        )

    # In the writer's thread

    def _write(self) -> None:
        while self._has_pending.wait() and not self._closed.is_set():
            self._has_pending.clear()
            while (batch := self._take()) and not self._closed.is_set():
                self._append_batch(batch)

    def _take(self) -> list[Pending]:
        """Entries with numbers one after the other."""
        batch: list[Pending] = []
        size = 0
        while self._pending and len(batch) < MESSAGE_ENTRIES and size < MESSAGE_SIZE:
            if self._pending[0].given_up and not self._pending[0].tried:
                if batch:
                    break
                self._pending.popleft()
                continue
            found = self._pending.popleft()
            found.tried = True
            size += len(found.octets)
            batch.append(found)
        return batch

    def _append_batch(self, batch: list[Pending]) -> None:
        assert self._writer is not None
        message = message_of(batch[0].id, [pending.octets for pending in batch])
        while not self._closed.is_set() and not all(pending.given_up for pending in batch):
            try:
                seq = answer_of(self._writer.ask(SUBJECT, message)).seq
            except NatsError as error:
                log.debug("definitions: %s", error)
                self._closed.wait(PAUSE_S)
            else:
                self._tell(self._on_appended, seq)
                return

    # In the reader's thread

    def _read(self) -> None:
        pause = LOOK_S
        while not self._closed.is_set():
            self._news.wait(pause)
            self._news.clear()
            try:
                found = self._fetch()
            except NatsError as error:
                log.debug("definitions: %s", error)
                pause = PAUSE_S
                continue
            if found:
                self._last = found[-1].seq
                self._tell(self._on_read, found)
                pause = 0.0
            elif self._wanted > self._last:
                pause = min(2 * pause, PAUSE_S) if 0 < pause <= PAUSE_S else SOON_S
            else:
                pause = LOOK_S

    def _fetch(self) -> list[Stored]:
        """The next messages, without gaps; none if there are none yet."""
        assert self._reader is not None
        if self.fault or self._last > self._wanted:
            self._check_end()
        first = self._last + 1
        found = [] if self.fault else self._reader.read_on(STREAM, first, READ_COUNT, READ_SIZE)
        whole = [message for at, message in enumerate(found) if message.seq == first + at]
        if found and not whole:
            if not self.behind:
                log.error("the log of definitions begins at %d, and this node has what is before %d", found[0].seq, first)
            self.behind = True
        return whole

    def _check_end(self) -> None:
        """Not to be taken for the log is one that is missing, or ends before what was applied."""
        assert self._reader is not None
        fault = ""
        try:
            state = self._reader.ask_jetstream(f"STREAM.INFO.{STREAM}").state
            assert state is not None
            self._wanted = max(self._wanted, state.last_seq)
            if state.last_seq < self._last:
                fault = f"the log of definitions ends at {state.last_seq}, and this node has applied {self._last}"
        except Fault as error:
            if error.code != NOT_FOUND:
                raise
            fault = "the log of definitions is missing"
        if fault and fault != self.fault:
            log.error("%s: nothing is changed until it is there again", fault)
        self.fault = fault

    def _tell(self, function: Callable[..., None], argument: object) -> None:
        try:
            self._call_soon(function, argument)
        except RuntimeError:
            # The loop is closed: nobody is there to hear.
            self._closed.set()
