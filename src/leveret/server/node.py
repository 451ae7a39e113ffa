"""A running broker: builds everything, listens, and stops in order. The only place that wires the parts together."""

import asyncio
import gc
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from leveret.auth.audit import Audit
from leveret.auth.chain import LoginChain
from leveret.auth.http_backend import HttpBackend
from leveret.auth.oauth2 import OAuth2
from leveret.auth.session import Sessions
from leveret.broker.broker import Broker, add_guest
from leveret.broker.command import Command, DeclareQueue, Proposal, Proposed
from leveret.broker.password import check_hashing
from leveret.definitions.file import BadFile, read_file
from leveret.definitions.file_import import Choices, import_definitions, steps_of_import
from leveret.definitions.settings import apply
from leveret.errors import NotFound
from leveret.protocol.peer import Peer
from leveret.server import proxy_protocol
from leveret.server.alarms import (
    SEGMENTS_MIN,
    Alarm,
    Alarms,
    OtherAlarm,
    behind_bytes,
    disk_alarm,
    memory_alarm,
    memory_limit,
)
from leveret.server.clock import now_ms
from leveret.server.cluster_settings import CannotJoin
from leveret.server.config import Config
from leveret.server.connector import Connector
from leveret.server.endpoint import AMQP, HTTP, PROMETHEUS, CannotListen, Endpoint, endpoints
from leveret.server.listener import AMQP_SHARE, Factory, Listener, listen
from leveret.server.outbox import Outbox
from leveret.server.process_memory import Heap
from leveret.server.read_buffer import ReadBuffer
from leveret.server.tls import Tls
from leveret.server.transport import Transport
from leveret.shovel.shovel import ShovelEnvironment
from leveret.shovel.supervisor import ShovelSupervisor
from leveret.store.modes import write_private

if TYPE_CHECKING:
    from leveret.cluster.cluster import Cluster
    from leveret.store.opened import Opened

T = TypeVar("T")

# A client that only listens now and then answers a close in its own time, and need not.
STOP_S = 0.5
# What the store keeps for a node of a cluster.
CLUSTER_FACT = "cluster"
STOP_REASON = "broker forced connection closure with reason 'shutdown'"

log = logging.getLogger("leveret.server")


def kept_sessions(config: Config) -> Sessions:
    """The logins of the web page, those too that were there when the broker stopped."""
    if config.storage == "memory":
        return Sessions()
    file = Path(config.data_dir) / "sessions.json"
    try:
        kept = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        kept = ""
    return Sessions(kept, partial(keep_session, str(file)))


def keep_session(file: str, text: str) -> None:
    """Write the sessions; without them everybody only has to log in again."""
    try:
        write_private(file, text)
    except OSError as error:
        log.warning("the web page's sessions are not kept: %s", error)


class Node:
    """One broker on one event loop. As a `guest` in somebody's process it leaves the collector and the heap as they are."""

    def __init__(self, config: Config, guest: bool = False) -> None:
        self._config = config
        self.is_guest = guest
        self.started_at = now_ms()
        # First: who has made a mistake in it hears so before a folder is opened.
        self.tls = Tls(config.tls) if config.tls.wanted else None
        check_hashing(config.settings().password_hashing)
        self._oauth2 = OAuth2(config.oauth2) if config.oauth2.wanted else None
        self._http_logins = HttpBackend(config.auth_http) if config.auth_http.wanted else None
        self._opened = None if config.storage == "memory" else open_store(config)
        try:
            self.broker = configured_broker(config, self._opened)
        except BaseException:
            if self._opened is not None:
                self._opened.leave()
            raise
        self.failed: BaseException | None = None
        # What the settings ask for, and what is listened on now, with the ports that were had.
        self.endpoints = endpoints(config)
        self.listeners: list[Endpoint] = []
        self.transports: set[Transport] = set()
        # Definitions come in one file after the other: each is checked against what is there.
        self.importing = asyncio.Lock()
        self._listeners: list[Listener] = []
        self.on_failed: Callable[[], None] | None = None
        # Set by whoever runs it and lets others stop it.
        self.on_stop: Callable[[], None] | None = None
        self._heap: Heap | None = None
        self._alarms: Alarms | None = None
        self._outbox: Outbox | None = None
        self.shovels: ShovelSupervisor | None = None
        self.logins: LoginChain | None = None
        self.sessions = kept_sessions(config)
        self.audit = Audit(self.broker, config.event_exchange)
        self.cluster: Cluster | None = None

    async def start(self) -> None:
        """Listen, or CannotListen; in a cluster when this node is in it, or CannotJoin."""
        if not self.is_guest:
            calm_garbage_collector()
        loop = asyncio.get_running_loop()
        buffer = ReadBuffer(self._config.frame_max)
        self._heap = Heap(loop, tuned=not self.is_guest)
        alarms = self._alarms = alarms_of(self._config, loop, self.broker, self._heap)
        outbox = self._outbox = Outbox(loop, self.broker, self._heap, alarms)
        alarms.on_quiet = outbox.tidy
        alarms.on_pressure = outbox.relieve

        def transport(endpoint: Endpoint | None = None, inner: Peer | None = None) -> Transport:
            return Transport(self.broker, buffer, outbox, alarms, self.transports, loop, endpoint, inner)

        self.logins = LoginChain(self.broker, loop, self._oauth2, self._http_logins, now_ms, self.do)
        if self.tls is not None:
            self.tls.start()
        if self._config.cluster is None:
            await self._listen_or_leave(transport)
        alarms.start()
        if self._opened is not None:
            if self._config.sync == "os":
                log.warning('sync = "os": confirmed messages may be lost in a power cut')
            sync = self._config.sync == "always"
            self._opened.start(loop.call_soon_threadsafe, outbox.on_progress, self._on_storage_failed, sync)
            outbox.schedule()
        if self._config.cluster is not None:
            try:
                await self._join(alarms, outbox)
                await self._listen(transport)
            except BaseException:
                await self.stop()
                raise
        connector = Connector(self.broker, partial(transport, None))
        environment = ShovelEnvironment(connector.connect, now_ms, lambda: self.broker.cluster_name)
        runs_here = (lambda key: True) if self.cluster is None else self.cluster.runs
        self.shovels = ShovelSupervisor(self.broker, environment, self.change, runs_here)
        self.shovels.start()

    @property
    def config(self) -> Config:
        """The settings that it was started with."""
        return self._config

    async def _listen_or_leave(self, transport: Callable[[Endpoint], Transport]) -> None:
        try:
            await self._listen(transport)
        except BaseException:
            await self._close_listeners()
            if self.logins is not None:
                self.logins.close()
            if self.tls is not None:
                self.tls.close()
            if self._opened is not None:
                self._opened.leave()
            raise

    async def _join(self, alarms: Alarms, outbox: Outbox) -> None:
        """Come into the cluster, and have there what the settings define."""
        from leveret.cluster.cluster import CUT_OFF, Cluster  # noqa: PLC0415 - one node needs nothing of it
        from leveret.cluster.surroundings import Surroundings  # noqa: PLC0415

        assert self._config.cluster is not None
        assert self._opened is not None
        data_dir = Path(self._config.data_dir)
        alarm = OtherAlarm(CUT_OFF)
        alarms.watch(alarm)

        def on_cut_off(cut_off: bool) -> None:
            alarm.is_set = cut_off
            alarms.look()

        fact, store = self._opened.fact(CLUSTER_FACT), self._opened.store
        surroundings = Surroundings(
            fact, partial(store.keep_fact, CLUSTER_FACT), outbox, on_cut_off, self._on_cluster_failed
        )
        self.cluster = Cluster(self._config.cluster, data_dir, self.broker, surroundings)
        await self.cluster.start()
        found = read_file(self._config.load_definitions) if self._config.load_definitions else {}
        if self.cluster.is_new:
            await self.change(partial(define_defaults, self.broker, self._config, found))
        for step in steps_of_import(self.broker, found, Choices(skip_unsupported=self._config.skip_unsupported)):
            if step is not None:
                await self.agree(step)
        await self.change(partial(apply, self.broker, self._config))

    def _on_cluster_failed(self, error: Exception) -> None:
        """There is no engine any more: the node stops and says why."""
        log.critical("shutting down: %s", error)
        self.failed = CannotJoin(str(error))
        if self.on_failed is not None:
            self.on_failed()

    async def _listen(self, transport: Callable[[Endpoint], Transport]) -> None:
        for endpoint in self.endpoints:
            if endpoint.protocol == AMQP:
                factory: Factory = partial(transport, endpoint)
                try:
                    listener = await listen(endpoint.host, endpoint.port, self.factory(endpoint, factory), AMQP_SHARE)
                except OSError as error:
                    raise CannotListen(endpoint, error) from error
                self._listeners.append(listener)
                self.add_listener(endpoint.at(listener.address))
            elif endpoint.protocol not in (HTTP, PROMETHEUS):
                # Those are opened by whoever runs the management layer, which is above this one.
                raise ValueError(f"nothing here speaks {endpoint.protocol}")

    def factory(self, endpoint: Endpoint, factory: Factory) -> Factory:
        """Makes the protocols of clients that come in there, in TLS if that is what is spoken."""
        if endpoint.tls and self.tls is not None:
            factory = self.tls.over(factory)
        return proxy_protocol.over(factory, self._config.proxies)

    async def _close_listeners(self) -> None:
        for listener in self._listeners:
            await listener.close()
        self._listeners = []
        self.listeners = []

    def add_listener(self, endpoint: Endpoint) -> None:
        """Clients are accepted there now. Whoever opened it says so, and closes it."""
        self.listeners.append(endpoint)
        kind = "TLS" if endpoint.tls else "TCP"
        log.info("started %s listener on %s (%s, %s)", kind, endpoint.address, endpoint.protocol, endpoint.login)

    @property
    def alarms(self) -> list[Alarm]:
        """What is watched for running low."""
        return [] if self._alarms is None else self._alarms.watched

    def set_limit(self, name: str, value: float) -> None:
        """Set memory_watermark or disk_free_limit until the next start."""
        reason = "low on memory" if name == "memory_watermark" else "low on disk"
        for alarm in self.alarms:
            if alarm.reason == reason:
                least = SEGMENTS_MIN * self._config.segment_size
                alarm.limit = memory_limit(value) if name == "memory_watermark" else max(int(value), least)
        if self._alarms is not None:
            self._alarms.look()

    async def change(self, function: Callable[[], T]) -> T:
        """Call what changes the model, from outside of any connection; return when that is on disk.

        In a cluster it is called again after each command that all have agreed on, until there is no other.
        """
        assert self._outbox is not None
        agreed: Command | None = None
        while True:
            try:
                return await self._outbox.change(function)
            except Proposed as proposed:
                agreed = proposed.command
                result = await self.agree(agreed)
                if isinstance(agreed, DeclareQueue) and agreed.name.startswith("amq.gen-"):
                    # Asked again, the server would give another name.
                    return cast(T, result)
            except NotFound:
                if agreed is None or not type(agreed).__name__.startswith(("Delete", "Clear")):
                    raise
                # It is gone, as was asked for.
                return cast(T, None)

    async def agree(self, command: Command) -> object:
        """Have all nodes of the cluster carry a command out, and return what that has returned here."""
        assert self.broker.propose is not None
        return await self.agreed(self.broker.propose(command, None))

    async def agreed(self, proposal: Proposal) -> object:
        """Wait until what was proposed is done everywhere."""
        await self.until(lambda: proposal.done)
        if proposal.error is not None:
            raise proposal.error
        return proposal.result

    def do(self, function: Callable[[], T]) -> T:
        """Call what changes the model, from outside of any connection; what changed is on disk later."""
        assert self._outbox is not None
        return self._outbox.do(function)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when this is so; it must become so by what the broker does."""
        assert self._outbox is not None
        await self._outbox.until(condition)

    def _on_storage_failed(self, error: BaseException) -> None:
        """Promise nothing more: refuse what waits for it, and have the broker stopped."""
        log.critical("storage failed, shutting down: %s", error)
        self.failed = error
        for transport in list(self.transports):
            transport.lose_confirms()
        if self._outbox is not None:
            self._outbox.on_failed(error)
        if self.on_failed is not None:
            self.on_failed()

    async def stop(self, patience_s: float | None = None) -> None:
        """Close every connection with 320 and end when they are gone, or after some time: without one, half a second."""
        await self._close_listeners()
        if self.tls is not None:
            self.tls.close()
        # Before connections are closed: a shovel takes that for a failure, and would connect again.
        if self.shovels is not None:
            await self.shovels.stop()
        for transport in list(self.transports):
            transport.shut(STOP_REASON)
        deadline = asyncio.get_running_loop().time() + (STOP_S if patience_s is None else patience_s)
        while self.transports and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        for transport in list(self.transports):
            transport.abort()
        await asyncio.sleep(0)
        if self.cluster is not None:
            await self.cluster.stop()
        if self._heap is not None:
            self._heap.close()
        if self._alarms is not None:
            self._alarms.close()
        if self._outbox is not None:
            self._outbox.close()
        if self.logins is not None:
            self.logins.close()
        if self._opened is not None:
            await self._finish_tasks()
            self._opened.close()
            self.failed = self.failed or self._opened.store.failed
        log.info("stopped")

    async def _finish_tasks(self) -> None:
        """Do what is left to do, and wait for what is read for it: what was rejected must not be found again."""
        work, storage = self.broker.work, self.broker.storage
        work.budget.begin()
        while not work.drain() or storage.is_fetching():
            storage.flush()
            await asyncio.sleep(0.001 if not work else 0)
            work.budget.begin()


def open_store(config: Config) -> "Opened":
    from leveret.store.opened import open_folder  # noqa: PLC0415 - in memory there is no need of SQLite and all that

    return open_folder(Path(config.data_dir), config.settings(), now_ms(), config.segment_size, config.accept_loss)


def alarms_of(config: Config, loop: asyncio.AbstractEventLoop, broker: Broker, heap: Heap) -> Alarms:
    """What is watched: memory, and the disk if there is something on it."""
    memory = memory_alarm(config.memory_watermark, heap.trim)
    if config.storage == "memory":
        return Alarms(loop, broker, [memory])
    disk = disk_alarm(Path(config.data_dir), config.disk_free_limit, config.segment_size)
    return Alarms(loop, broker, [memory, disk], behind_bytes(memory.limit, config.segment_size))


def configured_broker(config: Config, opened: "Opened | None" = None) -> Broker:
    """A broker with what was stored, and what the settings and the file they name define.

    Guest is made on first start if they have no users.
    """
    if config.cluster is not None:
        return clustered_broker(opened)
    broker = Broker(config.settings()) if opened is None else opened.broker
    if opened is not None and opened.fact(CLUSTER_FACT) is not None:
        raise CannotJoin("the data folder is that of a node of a cluster, which must be started with --cluster")
    found = read_file(config.load_definitions) if config.load_definitions else {}
    if opened is None or opened.fresh:
        broker.add_vhost("/")
        if not config.users and not found.get("users"):
            add_guest(broker)
    if found:
        load(broker, found, config)
    apply(broker, config)
    return broker


def clustered_broker(opened: "Opened | None") -> Broker:
    """A broker with what the cluster had defined when it was last in it."""
    if opened is None:
        raise CannotJoin('a node of a cluster must have its data on disk: storage = "disk"')
    if not opened.fresh and opened.fact(CLUSTER_FACT) is None:
        raise CannotJoin(
            "the data folder is that of a broker which was in no cluster. Export its definitions, start with an empty "
            "folder, and import them"
        )
    return opened.broker


def define_defaults(broker: Broker, config: Config, found: dict[str, object]) -> None:
    """What a new cluster has before anything is defined; all its first nodes say so, and it is done once."""
    broker.add_vhost("/")
    if not config.users and not found.get("users"):
        add_guest(broker)


def load(broker: Broker, found: dict[str, Any], config: Config) -> None:
    try:
        import_definitions(broker, found, Choices(skip_unsupported=config.skip_unsupported))
    except BadFile as error:
        raise BadFile(f"cannot import {config.load_definitions}: {error}") from None


def calm_garbage_collector() -> None:
    """Leave what was imported out of collections, and look at old objects seldom: connections clean up after themselves.

    Others few at a time: a hundred thousand queues that are declared would be looked at in one go otherwise, for long.
    """
    gc.freeze()
    gc.set_threshold(2_000, 5, 100_000)
