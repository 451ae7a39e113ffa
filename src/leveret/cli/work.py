"""`leveret work FILE…`: run the subscriptions of files."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import click

from leveret.cli.logs import start_log
from leveret.uri import BadUri
from leveret.work.checking import BadSubscriptions
from leveret.work.files import SUFFIXES, read
from leveret.work.health import Health
from leveret.work.metadata import Exchange
from leveret.work.retry import ATTEMPTS
from leveret.work.runtime import GRACE_S, URL, Runtime, broker_at
from leveret.work.schema import schema
from leveret.work.topology import CannotDeclare, declare_all

BAD, NONE_LEFT = 2, 1
SIGNALLED, CHANGED = "signalled", "changed"
SHOW_S = 1.0
WATCH_S = 0.5
LEVELS = ("debug", "info", "warning", "error")

log = logging.getLogger("leveret.work")


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="FILE|DIR...")
@click.option("--url", default=URL, envvar="LEVERET_URL", show_default=True, help="Any AMQP 0-9-1 broker.")
@click.option("--check", "only_check", is_flag=True, help="Look whether the files are right, and do no more.")
@click.option("--declare", "only_declare", is_flag=True, help="Declare exchanges, queues and bindings, and do no more.")
@click.option("--schema", "show_schema", is_flag=True, help="Print the JSON Schema of the files.")
@click.option("--list", "show_list", is_flag=True, help="Print the subscriptions and their queues.")
@click.option("--strict", is_flag=True, help="Allow only letters and digits in routing keys.")
@click.option("--reload", is_flag=True, help="Begin anew when a file changes.")
@click.option(
    "--retries",
    default=ATTEMPTS,
    show_default=True,
    type=click.IntRange(0),
    help="End a thread after so many network failures in a row; 0 is never.",
)
@click.option(
    "--grace", default=GRACE_S, show_default=True, type=click.FloatRange(0), help="Seconds to finish the work in hand."
)
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve /metrics and /health on this port.")
@click.option("--log-level", default="info", show_default=True, type=click.Choice(LEVELS))
def work(
    paths: tuple[Path, ...], only_check: bool, only_declare: bool, show_schema: bool, show_list: bool, **options: Any
) -> None:
    """Run the subscriptions of these files: JSON or YAML, an exchange with its Subscriptions.

    Exits with 0 when told to stop, with 1 when no worker is left, and with 2 if a file is not right.
    """
    if show_schema:
        click.echo(json.dumps(schema(), indent=2))
        return
    if not paths:
        raise click.UsageError("Which files? A FILE or DIR is missing.")
    # Handlers are looked for where the command is started.
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


def run_all(
    paths: tuple[Path, ...],
    exchanges: list[Exchange],
    *,
    url: str,
    strict: bool,
    reload: bool,
    retries: int,
    grace: float,
    metrics_port: int | None,
    log_level: str,
) -> None:
    start_log(log_level, "%(asctime)s %(levelname)s %(message)s")
    try:
        runtime = Runtime(url, exchanges, attempts=retries, grace_s=grace, strict=strict)
    except BadUri as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    watched = Watch(paths) if reload else None
    with ExitStack() as stack:
        if metrics_port is not None:
            health = listener(runtime, metrics_port)
            stack.callback(health.close)
            log.info("metrics and health on http://127.0.0.1:%d", health.port)
        told = asyncio.run(run(runtime, watched))
    if told == CHANGED:
        log.info("files have changed: beginning anew" if reload else "SIGHUP: beginning anew")
        # So that handlers are imported anew, too.
        os.execv(sys.executable, again())
    if not told:
        click.echo("leveret: no worker is left", err=True)
    if not runtime.finished:
        # A thread of a handler's own would be waited for, however long it takes.
        logging.shutdown()
        sys.stderr.flush()
        os._exit(0 if told else NONE_LEFT)
    if not told:
        sys.exit(NONE_LEFT)


def declare_or_exit(url: str, exchanges: list[Exchange]) -> None:
    try:
        asyncio.run(declare_all(broker_at(url), exchanges))
    except BadUri as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    except CannotDeclare as fault:
        click.echo(f"leveret: {fault}", err=True)
        sys.exit(NONE_LEFT)


def listener(runtime: Runtime, port: int) -> Health:
    try:
        return Health(runtime, port)
    except OSError as error:
        raise click.BadParameter(f"cannot listen on {port}: {error.strerror}", param_hint="--metrics-port") from None


def again(*more: str) -> list[str]:
    """The command that this process was started with."""
    return [sys.executable, *sys.orig_argv[1:], *more]


def read_or_exit(paths: tuple[Path, ...], strict: bool) -> list[Exchange]:
    try:
        return read(paths, strict)
    except BadSubscriptions as bad:
        for problem in bad.problems:
            click.echo(f"leveret: {problem}", err=True)
        sys.exit(BAD)


def listed(exchanges: list[Exchange]) -> list[str]:
    """A line for each subscription: exchange, key or headers, queue, handler."""
    rows = [("EXCHANGE", "TYPE", "KEY", "QUEUE", "THREADS", "HANDLER")]
    for exchange in exchanges:
        for one in exchange.subscriptions:
            key = json.dumps(dict(one.routing_headers)) if one.routing_headers else one.routing_key or ""
            handler = one.handler if isinstance(one.handler, str) else " ".join(map(str, one.handler))  # type: ignore[arg-type]
            threads = str(one.worker_thread_count)
            rows.append((exchange.name, exchange.type, key, exchange.queue_of(one), threads, handler))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


async def run(runtime: Runtime, watched: "Watch | None") -> str:
    """Work until something says to stop; what that was, "" for nothing. On a terminal with a line that shows how it goes."""
    loop = asyncio.get_running_loop()
    told: list[str] = []

    def stop(why: str) -> None:
        told.append(why)
        runtime.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, SIGNALLED)
    beside = [loop.create_task(show(runtime))] if sys.stderr.isatty() else []

    async def begin_anew_if_right() -> None:
        if not await files_are_bad():
            stop(CHANGED)

    loop.add_signal_handler(signal.SIGHUP, lambda: beside.append(loop.create_task(begin_anew_if_right())))
    if watched is not None:
        beside.append(loop.create_task(watched.until_changed(lambda: stop(CHANGED))))
    try:
        await runtime.run()
        # Who is told to end while it begins anew ends.
        return SIGNALLED if SIGNALLED in told else "".join(told)
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


async def show(runtime: Runtime) -> None:
    """One line, again and again."""
    before = 0
    while True:
        counters = runtime.counters
        rate, before = (counters.handled + counters.failed - before) / SHOW_S, counters.handled + counters.failed
        workers = f"{runtime.listening} of {len(runtime.workers)} workers listening"
        failed = f", {counters.failed:,} failed" if counters.failed else ""
        click.echo(f"\r\x1b[K{workers}, {counters.handled:,} handled{failed}, {rate:,.0f}/s", nl=False, err=True)
        await asyncio.sleep(SHOW_S)


async def files_are_bad() -> bool:
    """Whether what is there now is wrong, which is said; not what was imported before: in a process of its own."""
    process = await asyncio.create_subprocess_exec(*again("--check"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    for line in said.decode(errors="replace").splitlines():
        log.error("%s", line)
    if process.returncode:
        log.error("going on with what was there before")
    return process.returncode != 0


class Watch:
    """Looks whether files change: those of subscriptions, and the modules that were imported from here."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = paths
        self._seen = self._stamps()

    async def until_changed(self, then: Callable[[], None]) -> None:
        """Call `then` when something has changed and what is there now is right."""
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
                facts = path.stat()
                found[path] = facts.st_mtime_ns, facts.st_size
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
