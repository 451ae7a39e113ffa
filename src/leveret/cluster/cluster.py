"""This node's part in a cluster: links, engine and definitions, started in that order and stopped in reverse.

(1) A node that was in the cluster goes on where it was. One that is new takes all that is defined from another node; if
    there is none that has anything, and all that it was told to join are there, they are a new cluster, and the first of
    them by name makes its log.
(2) Refused by all it can reach, a new node gives up: CannotJoin says why.
(3) Without a majority for 2.5 s publishers are stopped: others may have defined what this node does not know of.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from zlib import crc32

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.command import Proposal
from leveret.cluster.commands import Forgotten, Started
from leveret.cluster.definition_log import DefinitionLog
from leveret.cluster.definitions import FOR_EVER, Definitions, Fact
from leveret.cluster.engine import Engine, EngineFailed, Options
from leveret.cluster.identity import Identity, OtherNode, take_identity, write_identity
from leveret.cluster.link import STATUS, VERSION, Hello, Refusal
from leveret.cluster.members import Member, Members, replicas_for
from leveret.cluster.nats import Address, NatsError
from leveret.cluster.peer import TICK_S, Peers
from leveret.cluster.snapshot import digest_of
from leveret.cluster.surroundings import Surroundings, address_of, secret_of
from leveret.errors import NotFound, PreconditionFailed
from leveret.server.cluster_settings import CannotJoin, ClusterSettings

CUT_OFF = "cut off from the cluster"
# So long after a refusal a new node must have found somebody who lets it in.
REFUSED_S = 3.0
# And so long it waits for links with all whom it has heard of, who may be down.
LINK_S = 1.0
LOOK_S = 0.05
SOON_S = 0.005
SAY_S = 10.0
# So often a node says how it is.
STATUS_S = 5.0
NAME_MAX = 128
# With so many nodes the log of definitions has as many copies as it began with.
REPLICAS_FROM = 4

log = logging.getLogger("leveret.cluster")


class Cluster:
    """The cluster, as this node sees it."""

    def __init__(
        self,
        settings: ClusterSettings,
        data_dir: Path,
        broker: Broker,
        surroundings: Surroundings,
    ) -> None:
        self._settings = settings
        self._data_dir = data_dir
        self._broker = broker
        self._surroundings = surroundings
        self._loop = asyncio.get_running_loop()
        self._secret = secret_of(settings)
        try:
            self._identity: Identity = take_identity(data_dir, settings.name, broker.settings.node_name)
        except OtherNode as error:
            raise CannotJoin(str(error)) from None
        text = surroundings.fact
        fact = Fact() if text is None else msgspec.json.decode(text, type=Fact)
        me = Member(self._identity.node, self._identity.id, settings.host, settings.port, settings.engine_port)
        self.members = Members(me, {member.node: member for member in fact.members})
        self._log = DefinitionLog(
            self._loop.call_soon_threadsafe,
            lambda messages: self._do(lambda: self.definitions.on_read(messages)),
            self._on_appended,
        )
        self.definitions = Definitions(
            broker,
            self.members,
            self._identity.incarnation,
            fact,
            surroundings.keep_fact,
            self._say,
            self._wake,
            lambda function: self._loop.call_later(SOON_S, lambda: self._do(function)),
            self._loop.time,
            self._log,
        )
        self._peers = Peers(
            self._loop,
            self._hello,
            self._secret,
            self._judge,
            self._opened_link,
            self._closed_link,
            self._heard,
            self._on_refusal,
        )
        self._hellos: dict[str, Hello] = {}
        self._refusal: Refusal | None = None
        self._refused_at = 0.0
        self._is_cut_off = False
        self._engine: Engine | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._joined = False
        # What this node says of itself to whoever asks another, if anybody knows that; and what others have said.
        self.describe: Callable[[], bytes] | None = None
        self.descriptions: dict[str, bytes] = {}
        self._described_at = 0.0
        # Whether nothing was defined before.
        self.is_new = False
        self._said_at = 0.0

    @property
    def name(self) -> str:
        return self._settings.name

    # Starting

    async def start(self) -> None:
        """Return when this node is in the cluster and has what was defined before; CannotJoin if it is not let in."""
        try:
            port = await self._peers.listen(self._settings.host, self._settings.port)
        except OSError as error:
            text = error.strerror or error
            raise CannotJoin(f"cannot listen for links on {self._settings.host}:{self._settings.port}: {text}") from None
        if port != self._settings.port:
            self.members.me = msgspec.structs.replace(self.members.me, port=port)
        addresses = [address_of(text) for text in self._settings.join]
        addresses += [(member.host, member.port) for member in (*self._identity.others, *self.members.known.values())]
        own = (self.members.me.host, self.members.me.port)
        self._peers.start(address for address in addresses if address != own)
        self._tick()
        if self.definitions.applied == 0:
            await self._meet()
        await self._start_engine()
        await self._open_log()
        proposal = self.definitions.propose(Started(self.members.me), patience_s=FOR_EVER)
        await self._until(lambda: proposal.done, "the other nodes")
        self._joined = True
        self._save_others()
        await self._link_all()
        if len(self.members.known) > REPLICAS_FROM:
            # It may be one more than there were, and then there is one more copy of the log.
            await self._asked(lambda: self._log.spread(replicas_for(len(self.members.known))))
        log.info("node '%s' is in the cluster '%s' of %s", self.members.me.node, self.name, ", ".join(self.members.known))

    async def _link_all(self) -> None:
        """Have a link with everybody who is up: they must know that this node is, too."""
        deadline = self._loop.time() + LINK_S
        while self._loop.time() < deadline and set(self.members.known) - {self.members.me.node} - set(self._peers.links):
            await asyncio.sleep(LOOK_S)

    async def _meet(self) -> None:
        """A new node: find one that has something and take it, or all those that are to be a new cluster."""
        own = (self.members.me.host, self.members.me.port)
        count = len({address_of(text) for text in self._settings.join} - {own})
        await self._until(lambda: len(self._hellos) >= count or self._has_others(), "the other nodes")
        self.is_new = not self._has_others()
        while self._has_others() and self.definitions.applied == 0:
            source = next(node for node, hello in self._hellos.items() if hello.applied > 0)
            self.definitions.ask_snapshot(source)
            await self._until(lambda: not self.definitions.awaits_snapshot, f"node '{source}'")

    def _has_others(self) -> bool:
        return any(hello.applied > 0 for hello in self._hellos.values())

    async def _start_engine(self) -> None:
        me = self.members.me
        routes = {(hello.host, hello.engine_port) for hello in self._hellos.values()}
        routes |= {(member.host, member.engine_port) for member in (*self._identity.others, *self.members.known.values())}
        routes.add((me.host, me.engine_port))
        if self._settings.engine_url:
            return
        options = Options(
            self._data_dir / "engine",
            me.node,
            self.name,
            self._secret.hex(),
            me.host,
            me.engine_port if len(routes) > 1 else None,
            tuple(f"{host}:{port}" for host, port in sorted(routes)),
        )
        try:
            engine = self._engine = Engine(options, self._tell_failed)
            await self._loop.run_in_executor(None, engine.start)
        except EngineFailed as error:
            raise CannotJoin(str(error)) from None

    def _tell_failed(self, error: EngineFailed) -> None:
        self._loop.call_soon_threadsafe(self._surroundings.on_failed, error)

    async def _open_log(self) -> None:
        """Find the log of definitions; of a new cluster, the first node makes it."""
        found = self._log
        found.open(self._address())
        is_first = self.definitions.applied == 0 and all(self.members.me.node < node for node in self._hellos)
        count = len(self._hellos) + 1

        def look() -> bool:
            if found.exists():
                return True
            if is_first:
                found.create(replicas_for(count))
            return False

        while not await self._asked(look):
            self._say_waiting("the log of definitions")
            await asyncio.sleep(LOOK_S)
        found.start(self.definitions.applied)

    async def _asked(self, look: Callable[[], bool]) -> bool:
        try:
            return await self._loop.run_in_executor(None, look)
        except NatsError as error:
            log.debug("definitions: %s", error)
            return False

    def _address(self) -> Address:
        if self._engine is not None:
            return self._engine.address
        found = urlsplit(self._settings.engine_url)
        return Address(found.hostname or "127.0.0.1", found.port or 4222, found.username or "")

    async def _until(self, condition: Callable[[], bool], whom: str) -> None:
        while not condition():
            refusal = self._refusal
            if refusal is not None and not self._peers.links and self._loop.time() - self._refused_at > REFUSED_S:
                raise CannotJoin(f"cannot join the cluster '{self.name}': {refusal.text}")
            self._say_waiting(whom)
            await asyncio.sleep(LOOK_S)

    def _say_waiting(self, whom: str) -> None:
        now = self._loop.time()
        if self._said_at and now - self._said_at > SAY_S:
            log.warning("waiting for %s; linked to: %s", whom, ", ".join(self._peers.names()) or "none")
            self._said_at = now
        self._said_at = self._said_at or now

    async def stop(self) -> None:
        """Leave: in reverse order. Nothing is done any more that must be agreed on."""
        if self._timer is not None:
            self._timer.cancel()
        await self._loop.run_in_executor(None, self._log.close)
        await self._peers.stop()
        if self._engine is not None:
            await self._loop.run_in_executor(None, self._engine.stop)

    def _on_appended(self, seq: int) -> None:
        self.definitions.on_appended(seq)

    # What links tell

    def _hello(self, nonce: str) -> Hello:
        me = self.members.me
        return Hello(
            VERSION,
            self.name,
            me.node,
            me.id,
            self._identity.incarnation,
            me.host,
            me.port,
            me.engine_port,
            self.definitions.applied,
            nonce,
        )

    def _judge(self, hello: Hello) -> Refusal | None:
        """Why somebody who knows the secret may not come in all the same."""
        me = self.members.me
        if hello.id == me.id:
            return Refusal("self", "this is the same node")
        known = self.members.known.get(hello.node)
        linked = self._hellos.get(hello.node)
        others = {one.id for one in (known, linked) if one is not None}
        if hello.node == me.node or others - {hello.id}:
            return Refusal("name", f"there is a node '{hello.node}' in the cluster '{self.name}' already")
        if not 0 < len(hello.node) <= NAME_MAX:
            return Refusal("name", f"a node's name has 1 to {NAME_MAX} characters")
        return None

    def _opened_link(self, hello: Hello) -> None:
        self._hellos[hello.node] = hello
        self._described_at = 0.0
        self.members.heard(hello.node, self._loop.time())
        self.members.applied[hello.node] = hello.applied
        log.info("linked with node '%s'", hello.node)
        self._do(self.definitions.tick)

    def _closed_link(self, node: str) -> None:
        self._hellos.pop(node, None)
        self.descriptions.pop(node, None)
        # It may come back at once: until then it is neither waited for nor counted.
        self.members.silent(node)
        log.warning("no link with node '%s' any more", node)
        self._do(self.definitions.tick)

    def _on_refusal(self, refusal: Refusal) -> None:
        if not self._joined and not self._identity.others:
            self._refused_at = self._refused_at if self._refusal is not None else self._loop.time()
            self._refusal = refusal

    def _heard(self, node: str, kind: int, octets: bytes) -> None:
        self.members.heard(node, self._loop.time())
        if kind == STATUS:
            self.descriptions[node] = octets
        else:
            self._do(lambda: self.definitions.on_record(node, kind, octets))

    def _say(self, kind: int, octets: bytes, node: str | None) -> None:
        self._peers.say(kind, octets, node)

    # Now and then

    def _do(self, function: Callable[[], None]) -> None:
        """Have the definitions do something, in a pass of their own."""
        self._surroundings.outbox.do(function)

    def _wake(self) -> None:
        """What was waited for is done."""
        self._surroundings.outbox.on_progress()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self._do(self.definitions.tick)
        cut_off = not self.members.has_majority(self._loop.time())
        if cut_off != self._is_cut_off:
            self._is_cut_off = cut_off
            missing = ", ".join(self.members.missing(self._loop.time()))
            if cut_off:
                log.warning("%s (missing: %s): publishers are blocked", CUT_OFF, missing)
            else:
                log.warning("no longer %s: publishers are unblocked", CUT_OFF)
            self._surroundings.on_cut_off(cut_off)
        if self._joined and self.members.me.node not in self.members.known:
            self._joined = False
            text = f"node '{self.members.me.node}' was forgotten by the cluster: its queues are gone"
            self._surroundings.on_failed(CannotJoin(text))
        if self._joined:
            self._save_others()
            self._tell_status()

    def _tell_status(self) -> None:
        now = self._loop.time()
        if self.describe is not None and now - self._described_at >= STATUS_S:
            self._described_at = now
            self._say(STATUS, self.describe(), None)

    def _save_others(self) -> None:
        others = [member for member in self.members.known.values() if member.node != self.members.me.node]
        for member in others:
            self._peers.know((member.host, member.port))
        if others != self._identity.others:
            for gone in self._identity.others:
                if gone.node not in self.members.known:
                    self._peers.forget((gone.host, gone.port), gone.node)
            self._identity.others = others
            self._loop.run_in_executor(None, write_identity, self._data_dir, self._identity)

    # What is asked of it

    def runs(self, key: tuple[str, str]) -> bool:
        """Whether this node runs the shovel of this vhost and name: one node does, the same in the eyes of all."""
        names = sorted(self.members.known)
        return names[crc32("\0".join(key).encode("utf-8", "surrogateescape")) % len(names)] == self.members.me.node

    def is_running(self, node: str) -> bool:
        return self.members.is_heard(node, self._loop.time())

    def forget(self, node: str) -> Proposal:
        """Have a node forgotten that will not come back, with its queues; refused while it is up."""
        if node not in self.members.known:
            raise NotFound(f"node '{node}' is not in the cluster")
        if self.is_running(node):
            raise PreconditionFailed(f"node '{node}' is running: it must be stopped before it is forgotten")
        return self.definitions.propose(Forgotten(node))

    async def let_go(self, node: str) -> None:
        """Have the copy of the log that a forgotten node had made on another one, if there is one more."""
        await self._asked(lambda: self._log.replace(node))

    def digest(self) -> str:
        """What is the same on all nodes on which the same is defined."""
        return digest_of(self._broker)
