"""Definitions on all nodes: commands are proposed to one log, and every node applies all of it, in order, to its own model.

  (1) What asks the model for a change gets Proposed before anything is made. The command is appended to the log, applied
      here as everywhere, and done when every node that is heard from has said that it has applied it too.
  (2) What a command causes belongs to it, and is done before the next one: the bindings of what is deleted, the auto-delete
      exchanges that lose their last one. So all nodes are the same after the same command.
  (3) What a broker would do by itself, as deleting a queue that is not used any more, its home proposes.
  (4) Rows, and the fact how far the log is applied, are in the same transaction, or the fact in a later one: what is applied
      again after a crash is there already.
  (5) An entry that is there twice, as its proposer had no answer, is applied once.

Knows no sockets and no threads: `log` appends and reads, `say` reaches the other nodes, time is an argument (seconds).
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.command import Command, DeclareExchange, DeclareQueue, DeleteQueue, Proposal, Proposed, apply, encode
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.broker.vhost_tasks import UnbindTask
from leveret.cluster.commands import Change, EntryId, Forgotten, Started, encode_change, entries_of
from leveret.cluster.definition_log import Pending
from leveret.cluster.digests import Beat, Digests
from leveret.cluster.link import ASK_SNAPSHOT, BEAT, LOG_END, SNAPSHOT
from leveret.cluster.members import Member, Members
from leveret.cluster.nats import Stored
from leveret.cluster.snapshot import Snapshot, commands_of, differences, digest_of, pack, unpack
from leveret.errors import AMQPError, InternalError, NotFound

PATIENCE_S = 10.0
FOR_EVER = float("inf")
# So often nodes compare what they have.
DIGEST_EVERY = 1000
PIECE_SIZE = 1 << 20
# After so long another one is asked for what did not come.
SNAPSHOT_S = 10.0
MORE, LAST = b"\0", b"\1"

log = logging.getLogger("leveret.cluster")


class Log(Protocol):
    """Where commands are in order."""

    def append(self, pending: Pending) -> None: ...
    def want(self, seq: int) -> None: ...
    def skip_to(self, seq: int) -> None: ...
    @property
    def behind(self) -> bool: ...


class Owner(Protocol):
    """A connection that has exclusive queues."""

    def own(self, queue: Queue) -> None: ...


class Fact(msgspec.Struct):
    """How far the log was applied, what was the last of each node's, and who is in the cluster."""

    applied: int = 0
    numbers: dict[str, tuple[int, int]] = {}
    members: list[Member] = []


class Waiting:
    """What this node has proposed and not applied yet."""

    __slots__ = ("deadline", "pending", "proposal")

    def __init__(self, pending: Pending, proposal: Proposal, deadline: float) -> None:
        self.pending = pending
        self.proposal = proposal
        self.deadline = deadline


class Definitions:
    """The definitions of one node of a cluster. `wake` has those go on whose proposals are done, `later` calls soon."""

    def __init__(
        self,
        broker: Broker,
        members: Members,
        incarnation: int,
        fact: Fact,
        keep_fact: Callable[[str], None],
        say: Callable[[int, bytes, str | None], None],
        wake: Callable[[], None],
        later: Callable[[Callable[[], None]], object],
        clock: Callable[[], float],
        log_of_commands: Log,
    ) -> None:
        self.applied = fact.applied
        self.numbers = dict(fact.numbers)
        self.members = members
        self.log = log_of_commands
        self._broker = broker
        self._node = members.me.node
        self._incarnation = incarnation
        self._keep_fact = keep_fact
        self._say = say
        self._wake = wake
        self._later = later
        self._clock = clock
        self.digest_every = DIGEST_EVERY
        self._next_number = 1
        self._waiting: dict[int, Waiting] = {}
        self._unneeded: set[tuple[str, str, int]] = set()
        # Applied here, and by which sequence; not yet by all.
        self._here: list[tuple[int, Proposal]] = []
        self._inbox: deque[tuple[int, EntryId, Change, bool]] = deque()
        self._within_message = False
        self._applying = False
        # What the last command has left to do.
        self._leaving: Queue | None = None
        self._unbinding: UnbindTask | None = None
        self._digests = Digests(self._node)
        # A snapshot that is coming, from whom, and since when it was asked for.
        self._pieces: list[bytes] = []
        self._source = ""
        self._asked_at = 0.0
        broker.on_command = self.record
        broker.propose = self.propose
        broker.on_unneeded = self.on_unneeded

    # Proposing

    def record(self, command: Command) -> None:
        """The model is about to make a change: only what the log has is made."""
        if not self._applying:
            raise Proposed(command)

    def propose(self, change: Change, owner: object = None, patience_s: float = PATIENCE_S) -> Proposal:
        """Have all nodes make a change."""
        if isinstance(change, DeclareQueue):
            change = msgspec.structs.replace(change, home=self._node)
        proposal = Proposal(change, owner)
        number, self._next_number = self._next_number, self._next_number + 1
        pending = Pending(EntryId(self._node, self._incarnation, number), encode_change(change))
        self._waiting[number] = Waiting(pending, proposal, self._clock() + patience_s)
        self.log.append(pending)
        return proposal

    def on_unneeded(self, command: DeleteQueue) -> None:
        """A queue of this node may go; until all have heard of it, it is proposed once."""
        key = (command.vhost, command.name, command.made_at)
        if key not in self._unneeded:
            self._unneeded.add(key)
            self.propose(command, patience_s=FOR_EVER)

    def on_appended(self, seq: int) -> None:
        """What was proposed is in the log, which reaches this sequence."""
        self.log.want(seq)
        self._say(LOG_END, seq.to_bytes(8, "big"), None)

    def is_waiting(self) -> bool:
        """Whether something that was proposed here is not applied yet."""
        return bool(self._waiting)

    # Applying

    def on_read(self, messages: list[Stored]) -> None:
        """The log's next messages."""
        for message in messages:
            entries = entries_of(message.payload)
            for at, (entry_id, change) in enumerate(entries, 1):
                self._inbox.append((message.seq, entry_id, change, at == len(entries)))
        self.apply_some()

    def apply_some(self) -> None:
        """Apply what can be applied now."""
        before = self.applied
        while self._inbox and not self._has_something_left():
            seq, entry_id, change, is_last = self._inbox.popleft()
            if seq <= self.applied:
                continue
            self._apply(seq, entry_id, change)
            self._within_message = not is_last
            if is_last:
                self.applied = seq
                if seq % self.digest_every == 0:
                    self._digests.remember(seq, digest_of(self._broker))
                    self._compare(seq)
        if self._inbox:
            self._later(self.apply_some)
        if self.applied != before:
            self._store()
            self._say_beat()
            self._finish()

    def _has_something_left(self) -> bool:
        """Whether the last command is not done: others must not find bindings, or rows, that are about to go."""
        if self._unbinding is not None and self._unbinding.done:
            self._unbinding = None
        if self._leaving is not None and self._leaving.storage.has_removed(self._leaving):
            self._leaving = None
        return self._unbinding is not None or self._leaving is not None

    def _apply(self, seq: int, entry_id: EntryId, change: Change) -> None:
        if (entry_id.incarnation, entry_id.number) <= self.numbers.get(entry_id.node, (0, 0)):
            return
        self.numbers[entry_id.node] = (entry_id.incarnation, entry_id.number)
        is_ours = (entry_id.node, entry_id.incarnation) == (self._node, self._incarnation)
        waiting = self._waiting.pop(entry_id.number, None) if is_ours else None
        proposal = None if waiting is None else waiting.proposal
        result, error = self._make(change, proposal, is_ours)
        if proposal is not None:
            proposal.result, proposal.error = result, error
            self._here.append((seq, proposal))

    def _make(self, change: Change, proposal: Proposal | None, is_ours: bool) -> tuple[object, AMQPError | None]:
        """Make a change in the model; what cannot be made can be made nowhere."""
        budget = self._broker.work.budget
        now, self._applying = budget.now, True
        try:
            return self._carry_out(change, proposal, is_ours), None
        except AMQPError as error:
            return None, error
        except Exception:
            log.exception("a command cannot be applied: %r", change)
            return None, InternalError("a command cannot be applied")
        finally:
            self._applying = False
            budget.now = now

    def _carry_out(self, change: Change, proposal: Proposal | None, is_ours: bool) -> object:
        if isinstance(change, Started):
            self._start(change.member)
            return None
        if isinstance(change, Forgotten):
            self._forget(change.node)
            return None
        vhost = self._broker.vhosts.get(getattr(change, "vhost", ""))
        if isinstance(change, DeclareQueue | DeclareExchange) and vhost is not None and is_there(vhost, change):
            # Whoever has proposed it asks again whether it is the same.
            return None
        if isinstance(change, DeleteQueue) and vhost is not None:
            self._unneeded.discard((change.vhost, change.name, change.made_at))
            self._note_leaving(vhost, change)
        result = apply(self._broker, change)
        if vhost is not None and not vhost.deleted:
            self._unbinding = vhost.unbinding()
        if isinstance(change, DeclareQueue) and change.exclusive and is_ours:
            self._give(change, result, None if proposal is None else proposal.owner)
        return result

    def _note_leaving(self, vhost: VirtualHost, change: DeleteQueue) -> None:
        queue = vhost.queues.get(change.name)
        if queue is not None and queue.durable and change.made_at in (0, queue.created_at):
            self._leaving = queue

    def _give(self, change: DeclareQueue, queue: object, owner: object) -> None:
        """An exclusive queue is made: it is its connection's, if that is still there."""
        assert isinstance(queue, Queue)
        if owner is None:
            self.on_unneeded(DeleteQueue(change.vhost, change.name, queue.created_at, by=change.by, at=change.at))
        else:
            queue.owner = owner
            cast(Owner, owner).own(queue)

    def _start(self, member: Member) -> None:
        """A node has come in: what was its connections' before is gone with them."""
        self.members.known[member.node] = member
        self._remove_queues(member.node, transient_only=True)

    def _forget(self, node: str) -> None:
        if self.members.known.pop(node, None) is None:
            raise NotFound(f"node '{node}' is not in the cluster")
        self.members.silent(node)
        self._remove_queues(node, transient_only=False)

    def _remove_queues(self, home: str, transient_only: bool) -> None:
        for vhost in self._broker.vhosts.values():
            for queue in list(vhost.queues.values()):
                if queue.home == home and not (transient_only and queue.durable):
                    # Few budgets are so large, but what it leaves to do must be done before the next command.
                    self._broker.work.budget.left = max(self._broker.work.budget.left, 1 << 20)
                    vhost.remove_queue(queue)
                    self._unbinding = vhost.unbinding() or self._unbinding

    def _store(self) -> None:
        fact = Fact(self.applied, self.numbers, list(self.members.known.values()))
        self._keep_fact(msgspec.json.encode(fact).decode())

    # What others say

    def _say_beat(self, node: str | None = None) -> None:
        self._say(BEAT, msgspec.json.encode(Beat(self.applied, *self._digests.latest)), node)

    def _finish(self) -> None:
        """Those proposals are done that all who are heard from have applied."""
        if not self._here:
            return
        others = self.members.heard_others(self._clock())
        everywhere = min((self.members.applied.get(node, 0) for node in others), default=self.applied)
        left = []
        for seq, proposal in self._here:
            if seq <= min(everywhere, self.applied):
                proposal.done = True
            else:
                left.append((seq, proposal))
        if len(left) < len(self._here):
            self._here = left
            self._wake()

    def on_record(self, node: str, kind: int, octets: bytes) -> None:
        """Another node has said something."""
        if kind == BEAT:
            self._on_beat(node, msgspec.json.decode(octets, type=Beat))
        elif kind == LOG_END:
            self.log.want(int.from_bytes(octets, "big"))
        elif kind == ASK_SNAPSHOT:
            self._send_snapshot(node)
        elif kind == SNAPSHOT and node == self._source:
            self._pieces.append(octets[1:])
            if octets[:1] == LAST:
                pieces, self._pieces, self._source = self._pieces, [], ""
                self._install(unpack(b"".join(pieces)), node)

    def _on_beat(self, node: str, beat: Beat) -> None:
        self.members.applied[node] = beat.applied
        self.log.want(beat.applied)
        if beat.digest:
            self._digests.hear(node, beat.digest_at, beat.digest)
            self._compare(beat.digest_at)
        self._finish()

    def tick(self) -> None:
        """Twice a second: say that we are there, and give up what takes too long."""
        now = self._clock()
        self._say_beat()
        self._finish()
        late = [number for number, waiting in self._waiting.items() if waiting.deadline < now]
        for number in late:
            waiting = self._waiting.pop(number)
            waiting.pending.given_up = True
            waiting.proposal.owner = None
            waiting.proposal.error = InternalError(self._why_not(now))
            waiting.proposal.done = True
        if late:
            self._wake()
        if self._source and now - self._asked_at > SNAPSHOT_S:
            self._source = ""
        others = self.members.heard_others(now)
        if self.log.behind and not self._source and others:
            self.ask_snapshot(others[0])

    def _why_not(self, now: float) -> str:
        missing = self.members.missing(now)
        if missing:
            return f"the nodes of the cluster do not agree on it in time; nodes missing: {', '.join(missing)}"
        return "the nodes of the cluster do not agree on it in time"

    # Comparing, and snapshots

    def _compare(self, seq: int) -> None:
        """Whoever differs from a majority takes what that has."""
        node = self._digests.who_is_right(seq, len(self.members.known))
        if node is not None and not self._source:
            log.error("definitions differ from those of the majority at %d: they are taken from node '%s'", seq, node)
            self.ask_snapshot(node)

    def ask_snapshot(self, node: str) -> None:
        """Take what is defined from another node."""
        self._pieces, self._source, self._asked_at = [], node, self._clock()
        self._say(ASK_SNAPSHOT, b"", node)

    @property
    def awaits_snapshot(self) -> bool:
        return self._source != ""

    def _send_snapshot(self, node: str) -> None:
        if self._within_message:
            # What is made is not what any sequence stands for.
            self._later(lambda: self._send_snapshot(node))
            return
        commands = [encode(command) for command in commands_of(self._broker)]
        octets = pack(Snapshot(self.applied, self.numbers, list(self.members.known.values()), commands))
        for at in range(0, len(octets), PIECE_SIZE):
            flag = LAST if at + PIECE_SIZE >= len(octets) else MORE
            self._say(SNAPSHOT, flag + octets[at : at + PIECE_SIZE], node)

    def _install(self, snapshot: Snapshot, node: str) -> None:
        """Have what another has, which may be further; if it is behind, it is asked again."""
        if snapshot.applied < self.applied or self._within_message:
            self._later(lambda: self.ask_snapshot(node))
            return
        for command in differences(self._broker, snapshot.commands):
            _, error = self._make(command, None, is_ours=False)
            if error is not None:
                log.warning("a part of the snapshot cannot be made: %s", error)
        self.applied = snapshot.applied
        self.numbers = dict(snapshot.numbers)
        self.members.known = {member.node: member for member in snapshot.members}
        self._digests.forget()
        self.log.skip_to(self.applied)
        log.info("took the definitions of node '%s', which had applied %d", node, snapshot.applied)
        self._store()
        self._say_beat()
        self.apply_some()


def is_there(vhost: VirtualHost, change: DeclareQueue | DeclareExchange) -> bool:
    """Whether there is something of that name."""
    return change.name in (vhost.queues if isinstance(change, DeclareQueue) else vhost.exchanges)
