"""The real broker for tests: in a thread of this process, on a free port of this machine, with nothing on disk.

Nothing outside of its arguments has a say in what it does: no LEVERET_ variables, no settings file, no size of the machine.
"""

import os
from importlib import import_module
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from leveret.server.config import BadSetting, Config, from_values
from leveret.server.node import Node
from leveret.testing.thread import NodeThread, told

# The process has other things in memory, of which the broker knows nothing; so it has no say in how much that may be.
NO_WATERMARK = 1 << 50

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Broker:
    """A broker for as long as the `with` lasts, or from `start` to `stop`; `async with` waits without blocking the loop.

    Settings are given by their names in the settings file. By default it keeps everything in memory, takes free ports
    of 127.0.0.1, has no HTTP API and knows no limit of memory; `log_level` has no effect: logging is the test's own.
    """

    def __init__(self, *, management: bool = False, **settings: Any) -> None:
        """BadSetting if a setting is not known or cannot be."""
        self._config = config_of({"management": management, **settings})
        self._metrics = "prometheus_port" in settings
        self._thread: NodeThread | None = None

    # From start to stop

    def start(self) -> Self:
        """Return when it takes connections; or raise what hinders it, OSError if a port cannot be had."""
        thread = self._begin()
        try:
            thread.ready.result()
        except BaseException:
            thread.join()
            raise
        return self._begun(thread)

    def stop(self) -> None:
        """Close all connections with 320, and return when nothing of it is left; once more does nothing."""
        if self._thread is not None:
            self._thread.join()
            self._ended(self._thread)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        thread = self._begin()
        try:
            await told(thread.ready)
        except BaseException:
            thread.join()
            raise
        return self._begun(thread)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._thread.ask_to_stop()
            try:
                await told(self._thread.ended)
            finally:
                self.stop()

    def _begin(self) -> NodeThread:
        if self._thread is not None and not self._thread.ended.done():
            raise RuntimeError("the broker is running already")
        if self._config.management:
            load_management()
        thread = NodeThread(self._config, self._metrics)
        thread.begin()
        self._thread = thread
        return thread

    def _begun(self, thread: NodeThread) -> Self:
        if thread.ended.done() or thread.failure is not None:
            thread.join()
            self._ended(thread)
        return self

    def _ended(self, thread: NodeThread) -> None:
        failure, thread.failure = thread.failure, None
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # a traceback that refers to itself would keep everything

    # Where it is

    @property
    def listeners(self) -> dict[str, tuple[str, int]]:
        """Protocol to host and port: amqp, http, prometheus; amqps, https and https/prometheus are those with TLS."""
        if self._thread is None or not self._thread.listeners:
            raise RuntimeError("the broker was not started")
        # Of several with one protocol, the first.
        return {one.scheme: (one.host, one.port) for one in reversed(self._thread.listeners)}

    @property
    def host(self) -> str:
        """Where a client on this machine finds it."""
        host = self.listeners[self._scheme][0]
        return EVERYWHERE.get(host, host)

    @property
    def _scheme(self) -> str:
        """What is spoken: TLS only where nothing else is."""
        return "amqp" if "amqp" in self.listeners else "amqps"

    @property
    def port(self) -> int:
        return self.listeners[self._scheme][1]

    @property
    def url(self) -> str:
        """For AMQP clients, with user and password; the virtual host is `/`."""
        return self.vhost_url("/")

    def vhost_url(self, name: str) -> str:
        """The same for another virtual host, which must be there."""
        return f"{self._scheme}://{self._login()}@{self._place(self.port)}/{quote(name, safe='')}"

    @property
    def management_url(self) -> str:
        """Of the HTTP API, with user and password and without a slash at its end; RuntimeError if it was not started."""
        scheme = "http" if "http" in self.listeners else "https"
        if scheme not in self.listeners:
            raise RuntimeError("management was not started: Broker(management=True), or start_management()")
        return f"{scheme}://{self._login()}@{self._place(self.listeners[scheme][1])}"

    def _place(self, port: int) -> str:
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def _user(self) -> tuple[str, str]:
        # With users in the settings, guest is not made.
        return (self._config.users[0].name, self._config.users[0].password) if self._config.users else ("guest", "guest")

    def _login(self) -> str:
        return ":".join(quote(part, safe="") for part in self._user())

    # What is done to it

    def start_management(self) -> str:
        """Start the HTTP API, if that was not done yet; its URL."""
        load_management()
        thread = self._running()
        thread.call(thread.manage)
        return self.management_url

    def add_vhost(self, name: str) -> None:
        """Make a virtual host in which the user of `url` may do everything."""
        user, _ = self._user()

        def add(node: Node) -> None:
            node.broker.add_vhost(name)
            if user in node.broker.users:
                node.broker.set_permissions(user, name, ".*", ".*", ".*")

        self._running().call(lambda node: node.change(lambda: add(node)))

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with everything in it; its connections are closed. NotFound if it is not there."""
        self._running().call(lambda node: node.change(lambda: node.broker.delete_vhost(name)))

    def _running(self) -> NodeThread:
        if self._thread is None:
            raise RuntimeError("the broker was not started")
        return self._thread


def load_management() -> None:
    """Import aiohttp and what needs it, in the caller's thread: it takes long, and the broker must not stand still."""
    import_module("leveret.management.server")


def config_of(settings: dict[str, Any]) -> Config:
    """These settings, and for a test what it does not say."""
    if settings.get("storage") == "disk" and "data_dir" not in settings:
        raise BadSetting("bad setting storage = 'disk' in the arguments: it needs data_dir")
    usual = {
        "port": 0,
        "management_port": 0,
        "prometheus_port": 0,
        "storage": "memory",
        "memory_watermark": NO_WATERMARK,
    }
    given = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in settings.items()}
    return from_values({**usual, **given}, "the arguments")
