"""`leveret work FILE…`: run the subscriptions in files."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypedDict, Unpack

import click

from leveret.cli.logs import start_log
from leveret.uri import BadUri
from leveret.work.backoff import ATTEMPTS
from leveret.work.health import HealthServer
from leveret.work.runtime import GRACE_S, URL, Runtime, broker_uri
from leveret.work.schema import schema
from leveret.work.subscription import Exchange, Handler
from leveret.work.subscription_file import SUFFIXES, read_files
from leveret.work.topology import CannotDeclare, declare_all
from leveret.work.validation import BadSubscriptions

BAD, NONE_LEFT = 2, 1
SIGNALLED, CHANGED = "signalled", "changed"
SHOW_S = 1.0
WATCH_S = 0.5
LEVELS = ("debug", "info", "warning", "error")

log = logging.getLogger("leveret.work")


class RunOptions(TypedDict):
    """The options that running has, besides the files."""

    url: str
    strict: bool
    reload: bool
    retries: int
    grace: float
    metrics_port: int | None
    log_level: str


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="FILE|DIR...")
@click.option(
    "--url",
    metavar="URL",
    default=URL,
    envvar="LEVERET_URL",
    show_default=True,
    help="Broker to connect to; any AMQP 0-9-1 broker.",
)
@click.option("--check", "only_check", is_flag=True, help="Check the files and exit.")
@click.option("--declare", "only_declare", is_flag=True, help="Declare exchanges, queues and bindings, and exit.")
@click.option("--schema", "show_schema", is_flag=True, help="Print the JSON Schema of the files and exit.")
@click.option("--list", "show_list", is_flag=True, help="List the subscriptions and their queues, and exit.")
@click.option("--strict", is_flag=True, help="Allow only letters and digits in routing keys.")
@click.option("--reload", is_flag=True, help="Restart when a file or a module of handlers changes.")
@click.option(
    "--retries",
    default=ATTEMPTS,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="Network failures in a row after which a worker ends; 0 for no limit.",
)
@click.option(
    "--grace",
    default=GRACE_S,
    show_default=True,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long handlers have to finish when stopped.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="Serve /metrics and /health there.")
@click.option(
    "--log-level", default="info", show_default=True, type=click.Choice(LEVELS), metavar="LEVEL", help=", ".join(LEVELS)
)
def work(
    paths: tuple[Path, ...],
    only_check: bool,
    only_declare: bool,
    show_schema: bool,
    show_list: bool,
    **options: Unpack[RunOptions],
) -> None:
    """Run the subscriptions in JSON or YAML files. Each file has an exchange with its Subscriptions, or a list of exchanges.

    Exits with 0 when stopped, with 1 when no worker is left, and with 2 if a file is wrong.
    """
    if show_schema:
        click.echo(json.dumps(schema(), indent=2))
        return
    if not paths:
        raise click.UsageError("A FILE or DIR is required.")
    # Modules of handlers are looked for in the current folder, too.
    sys.path.insert(0, os.getcwd())
    exchanges = read_or_exit(paths, options["strict"])
    count = sum(len(exchange.subscriptions) for exchange in exchanges)
    if show_list:
        for line in listed(exchanges):
            click.echo(line)
    elif only_check:
        click.echo(f"{count} subscription{'' if count == 1 else 's'}, all well")
    elif only_declare:
        declare_or_exit(options["url"], exchanges)
        click.echo(f"{count} subscription{'' if count == 1 else 's'} declared")
    else:
        run_all(paths, exchanges, **options)


def run_all(paths: tuple[Path, ...], exchanges: list[Exchange], **options: Unpack[RunOptions]) -> None:
    """Work until told to stop or no worker is left, and exit; or restart in this process when files have changed."""
    start_log(options["log_level"], "%(asctime)s %(levelname)s %(message)s")
    try:
        runtime = Runtime(
            options["url"],
            exchanges,
            attempts=options["retries"],
            grace_s=options["grace"],
            strict=options["strict"],
        )
    except BadUri as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    watch = Watch(paths) if options["reload"] else None
    with ExitStack() as stack:
        if options["metrics_port"] is not None:
            server = health_server(runtime, options["metrics_port"])
            stack.callback(server.close)
            log.info("metrics and health on http://127.0.0.1:%d", server.port)
        reason = asyncio.run(run(runtime, watch))
    if reason == CHANGED:
        log.info("files have changed: restarting" if options["reload"] else "SIGHUP: restarting")
        # A new program, so that modules of handlers are imported anew, too.
        os.execv(sys.executable, same_command())
    if not reason:
        click.echo("leveret: no worker is left", err=True)
    if not runtime.finished:
        # Python would wait for threads that handlers have started, however long they take.
        logging.shutdown()
        sys.stderr.flush()
        os._exit(0 if reason else NONE_LEFT)
    if not reason:
        sys.exit(NONE_LEFT)


def declare_or_exit(url: str, exchanges: list[Exchange]) -> None:
    try:
        asyncio.run(declare_all(broker_uri(url), exchanges))
    except BadUri as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    except CannotDeclare as fault:
        click.echo(f"leveret: {fault}", err=True)
        sys.exit(NONE_LEFT)


def health_server(runtime: Runtime, port: int) -> HealthServer:
    try:
        return HealthServer(runtime, port)
    except OSError as error:
        raise click.BadParameter(f"cannot listen on {port}: {error.strerror}", param_hint="--metrics-port") from None


def same_command(*more: str) -> list[str]:
    """The command that started this process."""
    return [sys.executable, *sys.orig_argv[1:], *more]


def read_or_exit(paths: tuple[Path, ...], strict: bool) -> list[Exchange]:
    try:
        return read_files(paths, strict)
    except BadSubscriptions as bad:
        for problem in bad.problems:
            click.echo(f"leveret: {problem}", err=True)
        sys.exit(BAD)


def listed(exchanges: list[Exchange]) -> list[str]:
    """A table of the subscriptions, a line for each."""
    rows = [("EXCHANGE", "TYPE", "KEY", "QUEUE", "THREADS", "HANDLER")]
    for exchange in exchanges:
        for one in exchange.subscriptions:
            key = json.dumps(dict(one.routing_headers)) if one.routing_headers else one.routing_key or ""
            threads = str(one.worker_thread_count)
            rows.append((exchange.name, exchange.type, key, exchange.queue_of(one), threads, handler_text(one.handler)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def handler_text(handler: Handler) -> str:
    return " ".join(handler) if isinstance(handler, Sequence) and not isinstance(handler, str) else str(handler)


async def run(runtime: Runtime, watch: "Watch | None") -> str:
    """Work until stopped; the reason, "" if no worker is left. On a terminal a line shows the progress."""
    loop = asyncio.get_running_loop()
    reasons: list[str] = []

    def stop(reason: str) -> None:
        reasons.append(reason)
        runtime.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, SIGNALLED)
    tasks = [loop.create_task(show(runtime))] if sys.stderr.isatty() else []

    async def restart_if_valid() -> None:
        if not await files_are_bad():
            stop(CHANGED)

    loop.add_signal_handler(signal.SIGHUP, lambda: tasks.append(loop.create_task(restart_if_valid())))
    if watch is not None:
        tasks.append(loop.create_task(watch.until_changed(lambda: stop(CHANGED))))
    try:
        await runtime.run()
        # A signal to stop wins over a restart that has begun.
        return SIGNALLED if SIGNALLED in reasons else "".join(reasons)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def show(runtime: Runtime) -> None:
    """Show a line with the counters, updated every second."""
    before = 0
    while True:
        counters = runtime.counters
        rate, before = (counters.handled + counters.failed - before) / SHOW_S, counters.handled + counters.failed
        workers = f"{runtime.listening} of {len(runtime.workers)} workers listening"
        failed = f", {counters.failed:,} failed" if counters.failed else ""
        click.echo(f"\r\x1b[K{workers}, {counters.handled:,} handled{failed}, {rate:,.0f}/s", nl=False, err=True)
        await asyncio.sleep(SHOW_S)


async def files_are_bad() -> bool:
    """Check the files as they are now, and log what is wrong; in another process, as this one has the old modules."""
    process = await asyncio.create_subprocess_exec(
        *same_command("--check"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    for line in errors.decode(errors="replace").splitlines():
        log.error("%s", line)
    if process.returncode:
        log.error("not restarting: still running the previous version")
    return process.returncode != 0


class Watch:
    """Watches files: those of subscriptions, and modules that were imported from the current folder."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = paths
        self._seen = self._stamps()

    async def until_changed(self, then: Callable[[], None]) -> None:
        """Call `then` when a file has changed and the files are valid."""
        while True:
            await asyncio.sleep(WATCH_S)
            stamps = self._stamps()
            if stamps == self._seen:
                continue
            self._seen = stamps
            if not await files_are_bad():
                then()
                return

    def _stamps(self) -> dict[Path, tuple[int, int]]:
        found: dict[Path, tuple[int, int]] = {}
        for path in self._files():
            try:
                status = path.stat()
                found[path] = status.st_mtime_ns, status.st_size
            except OSError:
                found[path] = 0, 0
        return found

    def _files(self) -> set[Path]:
        here = Path.cwd()
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        found = [Path(file) for file in files if file]
        mine = {path for path in found if path.is_relative_to(here) and "site-packages" not in path.parts}
        for path in self._paths:
            mine.add(path)
            with suppress(OSError):
                mine.update(file for file in path.iterdir() if file.suffix in SUFFIXES)
        return mine
