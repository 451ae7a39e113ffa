"""The command `leveret`: starts the broker and runs it until it is told to stop; `leveret store …` is in cli/store.py."""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import click

from leveret import __version__
from leveret.cli.store import store
from leveret.server.config import BadSetting, Config, file_of, load
from leveret.server.definitions import BadDefinition
from leveret.server.node import Node
from leveret.store.definitions import UnknownFormat
from leveret.store.opening import InUse, Unusable


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", type=str, metavar="FILE", help="Read settings from this TOML file.")
@click.option("--host", metavar="HOST", help="Listen on this address.  [default: 127.0.0.1]")
@click.option("--port", metavar="PORT", help="Listen for AMQP on this port; 0 takes a free one.  [default: 5672]")
@click.option("--management-port", metavar="PORT", help="Port of the management API.  [default: 15672]")
@click.option("--data-dir", metavar="DIR", help="Keep durable data here.  [default: leveret-data]")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.  [default: info]")
@click.version_option(__version__, message="leveret %(version)s")
@click.pass_context
def main(context: click.Context, /, config: str | None, **flags: Any) -> None:
    """Start a message broker that speaks AMQP 0-9-1 as RabbitMQ does.

    Every setting can also be given in the TOML file or as a variable LEVERET_<SETTING>; flags win, then variables.
    """
    given = [name for name, value in {"config": config, **flags}.items() if value is not None]
    if context.invoked_subcommand is None:
        run(config, flags)
    elif given:
        raise click.UsageError(f"--{given[0].replace('_', '-')} is of no use to {context.invoked_subcommand}")


main.add_command(store)


def run(config: str | None, flags: dict[str, Any]) -> None:
    """Start the broker and run it to its end."""
    try:
        settings = load(config, {name: value for name, value in flags.items() if value is not None})
    except BadSetting as error:
        fail(str(error), 2)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
    raise_file_limit()
    try:
        event_loop()(serve(settings))
    except (InUse, UnknownFormat, Unusable) as error:
        fail(str(error), 1)
    except BadDefinition as error:
        fail(f"bad setting {error.place} in {file_of(config, os.environ)}: {error.rule}", 2)
    except CannotListen as error:
        fail(str(error), 1)


class OneLine(logging.Formatter):
    """A line for each record: a name that a client chose must not pass for another one."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).replace("\n", "\\n").replace("\r", "\\r")


async def serve(config: Config) -> None:
    """Run a node until SIGTERM or Ctrl-C."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = Node(config)
    node.on_failed = stop.set
    try:
        await node.start()
    except OSError as error:
        raise CannotListen(config.host, config.port, error) from error
    management = await manage(node, config) if config.management else None
    click.echo("ready " + " ".join(f"{name}={url_host(host)}:{port}" for name, (host, port) in node.listeners.items()))
    await stop.wait()
    if management is not None:
        await management.stop()
    await node.stop()
    if node.failed is not None:
        fail(f"storage failed: {node.failed}", 1)


async def manage(node: Node, config: Config) -> Any:
    """Start the HTTP API."""
    from leveret.management.server import Management  # noqa: PLC0415 - `leveret --help` needs no aiohttp

    management = Management(node)
    try:
        port = config.management_port
        node.other_listeners["http"] = await management.start(config.host, port)
        port = config.prometheus_port
        node.other_listeners["prometheus"] = await management.start_metrics(config.host, port)
    except OSError as error:
        await management.stop()
        await node.stop()
        raise CannotListen(config.host, port, error) from error
    return management


class CannotListen(Exception):
    """A port is taken, or an address is not ours."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        # A name that cannot be looked up has numbers of its own.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        super().__init__(f"cannot listen on {host}:{port}: {reason}")


def url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


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


def fail(text: str, status: int) -> None:
    click.echo(f"leveret: {text}", err=True)
    sys.exit(status)
