"""Running the broker: settings, logs, signals, until it is told to stop."""

import asyncio
import contextlib
import logging
import os
import resource
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from leveret.auth.oauth2 import BadOAuth2
from leveret.broker.password import NoArgon2
from leveret.broker.seal import BadSeal
from leveret.cli.api import SOCKET_NAME
from leveret.cli.logs import start_log
from leveret.cli.main import fail
from leveret.definitions.file import BadFile
from leveret.definitions.settings import BadDefinition
from leveret.server.certificates import BadTls
from leveret.server.cluster_settings import CannotJoin
from leveret.server.config import BadSetting, Config, file_of, load
from leveret.server.endpoint import CannotListen, management_endpoints
from leveret.server.node import Node
from leveret.server.tls_settings import TlsSettings
from leveret.store.opened import InUse, Misfit, Unusable
from leveret.store.rows import UnknownFormat

# What SIGHUP sets, and how; all other settings take effect at the next start.
RELOADED: dict[str, Callable[[Node, Config], None]] = {
    "log_level": lambda node, config: logging.getLogger().setLevel(config.log_level.upper()),
    "memory_watermark": lambda node, config: node.set_limit("memory_watermark", config.memory_watermark),
    "disk_free_limit": lambda node, config: node.set_limit("disk_free_limit", config.disk_free_limit),
}
RELOADED_TLS = ("certificate", "key", "ca", "clients", "names")

log = logging.getLogger("leveret.server")


def run(config: str | None, flags: dict[str, Any]) -> None:
    """Start the broker and run it to its end."""

    def read() -> Config:
        return load(config, {name: value for name, value in flags.items() if value is not None})

    try:
        settings = read()
    except BadSetting as error:
        fail(str(error), 2)
    start_log(settings.log_level, "%(asctime)s %(levelname)s %(name)s %(message)s")
    # It would tell of each request that is not HTTP at all, with a traceback.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    raise_file_limit()
    # Until there is something to set.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        event_loop()(serve(settings, read))
    except (BadOAuth2, BadSeal, NoArgon2) as error:
        fail(str(error), 2)
    except (InUse, Misfit, UnknownFormat, Unusable) as error:
        fail(str(error), 1)
    except BadTls as error:
        fail("\nleveret: ".join(error.faults), 2)
    except BadFile as error:
        fail(str(error), 2)
    except BadDefinition as error:
        fail(f"bad setting {error.place} in {file_of(config, os.environ)}: {error.rule}", 2)
    except (CannotListen, CannotJoin) as error:
        fail(str(error), 1)


async def serve(config: Config, read: Callable[[], Config]) -> None:
    """Run a node until SIGTERM or Ctrl-C; with SIGHUP settings are read again."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = Node(config)
    node.on_failed = node.on_stop = stop.set
    if not await started(node, stop):
        return
    loop.add_signal_handler(signal.SIGHUP, Reloading(node, config, read).reload)
    management = await manage(node, config) if config.management else None
    click.echo(" ".join(["ready", *map(str, node.listeners)]))
    await stop.wait()
    if management is not None:
        await management.stop()
    await node.stop()
    if node.failed is not None:
        fail(str(node.failed) if isinstance(node.failed, CannotJoin) else f"storage failed: {node.failed}", 1)


async def started(node: Node, stop: asyncio.Event) -> bool:
    """Start a node; False if it is to stop before that, as one may that waits for others."""
    loop = asyncio.get_running_loop()
    start, stopping = loop.create_task(node.start()), loop.create_task(stop.wait())
    await asyncio.wait((start, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not start.done():
        start.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await start
        return False
    stopping.cancel()
    await start
    return True


class Reloading:
    """Settings that a running broker can change, read again when it is asked to."""

    def __init__(self, node: Node, config: Config, read: Callable[[], Config]) -> None:
        self._node = node
        self._config = config
        self._read = read

    def reload(self) -> None:
        """Change what is set otherwise now; a value that leveretctl has set stays, unless its setting was changed."""
        try:
            found = self._read()
        except BadSetting as error:
            log.error("SIGHUP: %s; all settings stay as they are", error)
            return
        changed = [name for name in Config.__struct_fields__ if getattr(found, name) != getattr(self._config, name)]
        self._reload_tls(self._config.tls, found.tls)
        self._config = found
        for name in changed:
            if name in RELOADED:
                RELOADED[name](self._node, found)
                log.info("SIGHUP: %s is changed", name)
            elif name != "tls":
                # Of that table, each by itself (`_reload_tls`).
                log.info("SIGHUP: %s takes effect at the next start", name)
        if not changed:
            log.info("SIGHUP: no setting has changed")

    def _reload_tls(self, before: TlsSettings, found: TlsSettings) -> None:
        """Read the certificates again, those that are named now."""
        tls = self._node.tls
        if tls is not None:
            tls.certificates.reload(found)
        for name in TlsSettings.__struct_fields__:
            if getattr(found, name) != getattr(before, name) and (tls is None or name not in RELOADED_TLS):
                log.info("SIGHUP: tls.%s takes effect at the next start", name)


async def manage(node: Node, config: Config) -> Any:
    """Start the HTTP API."""
    from leveret.management.server import Management  # noqa: PLC0415 - `leveret --help` needs no aiohttp

    management = Management(node)
    try:
        await management.start(management_endpoints(config))
    except CannotListen:
        await node.stop()
        raise
    if config.storage == "disk":
        await management.open_socket(Path(config.data_dir) / SOCKET_NAME)
    return management


def event_loop() -> Callable[[Coroutine[Any, Any, None]], None]:
    """uvloop's `run` where it is installed, else asyncio's."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.run
    return uvloop.run


def raise_file_limit() -> None:
    """Take as many open files as we may: each connection is one."""
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
