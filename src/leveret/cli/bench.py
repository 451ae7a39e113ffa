"""The command `leveret bench`: load for any AMQP 0-9-1 broker, with rates and how late messages come.

Publishers and consumers are processes; each message begins with the time at which it was sent, so a consumer knows how
late it is. Frames of a publisher differ in that time only and are made once.
"""

import json
import multiprocessing
import queue
import secrets
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.queues import Queue
from typing import TypedDict, Unpack

import click

from leveret.cli.amqp import Client, Closed
from leveret.wire.content import END, frame_head
from leveret.wire.frames import FRAME_OVERHEAD
from leveret.wire.methods import write_method
from leveret.wire.properties import Properties, encode_properties
from leveret.wire.spec import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)

STAMP = struct.Struct(">d")
SIZE_MIN = STAMP.size
REPORT_S = 1.0
DRAIN_S = 5.0
SAMPLES_MAX = 200_000
SAMPLES_A_READ = 16
PERCENTILES = (50, 95, 99, 99.9)


class BenchOptions(TypedDict):
    """The options of the command."""

    url: str
    publishers: int
    consumers: int
    size: int
    rate: int
    seconds: float
    confirm: int
    ack: int
    prefetch: int
    persistent: bool
    name: str | None


class Report(TypedDict, total=False):
    """What a publisher or consumer has done since its last report; `seconds` in its last one, `error` if it failed."""

    published: int
    confirmed: int
    consumed: int
    late: list[float]
    seconds: float
    error: str


class Totals(TypedDict):
    """The sums of all reports."""

    published: int
    confirmed: int
    consumed: int


class Figures(Totals):
    """The result."""

    seconds: float
    publish_rate: int
    consume_rate: int
    latency: dict[str, float]


# What a process does: publish or consume.
Act = Callable[[Client, BenchOptions, str, "Queue[Report]"], None]


@click.command()
@click.option("--url", default="amqp://guest:guest@127.0.0.1:5672/", show_default=True, metavar="URL")
@click.option("-x", "--publishers", default=1, show_default=True, type=click.IntRange(0, 1000))
@click.option("-y", "--consumers", default=1, show_default=True, type=click.IntRange(0, 1000))
@click.option(
    "-s", "--size", default=100, show_default=True, type=click.IntRange(SIZE_MIN, 1 << 20), help="Size of a body in bytes."
)
@click.option("-r", "--rate", default=0, show_default=True, help="Messages per second for each publisher; 0 is unlimited.")
@click.option(
    "-z", "--seconds", default=10.0, show_default=True, type=click.FloatRange(0.1, 86_400), help="How long to run."
)
@click.option(
    "-c", "--confirm", default=0, show_default=True, metavar="N", help="Use publisher confirms, with up to N outstanding."
)
@click.option(
    "-a", "--ack", default=0, show_default=True, metavar="N", help="Acknowledge every N deliveries; 0 is automatic."
)
@click.option("-q", "--prefetch", default=1000, show_default=True)
@click.option("-f", "--persistent", is_flag=True, help="Publish persistent messages to a durable queue.")
@click.option("-u", "--queue", "name", metavar="NAME", help="Use this queue and keep it afterwards.  [default: a new one]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end and nothing else.")
def bench(as_json: bool, **options: Unpack[BenchOptions]) -> None:
    """Publish and consume as fast as possible, or at a given rate, and show throughput and latency."""
    try:
        figures = measure(options, quiet=as_json)
    except (OSError, Closed) as error:
        click.echo(f"leveret: {options['url'].rpartition('@')[2]}: {error}", err=True)
        sys.exit(69)
    except KeyboardInterrupt:
        sys.exit(130)
    click.echo(json.dumps(figures) if as_json else "\n".join(said(figures)))


def measure(options: BenchOptions, quiet: bool) -> Figures:
    """Run it; all figures."""
    name = options["name"] or f"leveret-bench-{secrets.token_hex(4)}"
    with Client(options["url"]) as client:
        client.call(QueueDeclare(name, durable=options["persistent"]), QueueDeclareOk)
        try:
            return run(options, name, quiet)
        finally:
            if not options["name"]:
                client.call(QueueDelete(name), QueueDeleteOk)


def run(options: BenchOptions, name: str, quiet: bool) -> Figures:
    context = multiprocessing.get_context("spawn")
    told: Queue[Report] = context.Queue()
    workers = [context.Process(target=work, args=(consume, options, name, told)) for _ in range(options["consumers"])]
    workers += [context.Process(target=work, args=(publish, options, name, told)) for _ in range(options["publishers"])]
    for worker in workers:
        worker.start()
    try:
        return gathered(told, len(workers), options["seconds"], quiet)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def gathered(told: "Queue[Report]", workers: int, seconds: float, quiet: bool) -> Figures:
    """Add up what the workers tell until all have ended."""
    totals: Totals = {"published": 0, "confirmed": 0, "consumed": 0}
    late: list[float] = []
    shown_at, shown = time.monotonic(), totals.copy()
    elapsed = 0.0
    deadline = time.monotonic() + seconds + DRAIN_S + 60
    while workers:
        try:
            report = told.get(timeout=max(0.1, deadline - time.monotonic()))
        except queue.Empty:
            raise Closed("a publisher or consumer has come to no end") from None
        if "error" in report:
            raise Closed(report["error"])
        totals["published"] += report.get("published", 0)
        totals["confirmed"] += report.get("confirmed", 0)
        totals["consumed"] += report.get("consumed", 0)
        late += report.get("late", [])
        if "seconds" in report:
            workers -= 1
            elapsed = max(elapsed, report["seconds"])
        now = time.monotonic()
        if not quiet and now - shown_at >= REPORT_S:
            published = (totals["published"] - shown["published"]) / (now - shown_at)
            consumed = (totals["consumed"] - shown["consumed"]) / (now - shown_at)
            click.echo(f"published {published:>11,.0f}/s   consumed {consumed:>11,.0f}/s")
            shown_at, shown = now, totals.copy()
    return figures_of(totals, late, elapsed or seconds)


def figures_of(totals: Totals, late: list[float], seconds: float) -> Figures:
    late.sort()
    found = (
        {f"p{percent:g}_ms": round(1000 * late[int(len(late) * percent / 100)], 3) for percent in PERCENTILES}
        if late
        else {}
    )
    return {
        **totals,
        "seconds": round(seconds, 3),
        "publish_rate": round(totals["published"] / seconds),
        "consume_rate": round(totals["consumed"] / seconds),
        "latency": found,
    }


def said(figures: Figures) -> list[str]:
    latency = "   ".join(f"{name.removesuffix('_ms')} {value:.2f} ms" for name, value in figures["latency"].items())
    return [
        f"published {figures['published']:,} ({figures['publish_rate']:,}/s), consumed {figures['consumed']:,} "
        f"({figures['consume_rate']:,}/s) in {figures['seconds']:.1f} s",
        *([f"latency   {latency}"] if latency else []),
    ]


# The workers


def work(act: Act, options: BenchOptions, name: str, told: "Queue[Report]") -> None:
    """Run one worker and tell how it ended."""
    try:
        with Client(options["url"]) as client:
            act(client, options, name, told)
    except (OSError, Closed) as error:
        told.put({"error": str(error)})
    except KeyboardInterrupt:
        pass


def publish(client: Client, options: BenchOptions, name: str, told: "Queue[Report]") -> None:
    window, rate = options["confirm"], options["rate"]
    if window:
        client.call(ConfirmSelect(), ConfirmSelectOk)
    before, after = message_frames(name, options["size"], options["persistent"], client.frame_max)
    piece = min(max(1, 65_536 // (len(before) + len(after))), window or 1 << 16, max(1, rate // 50) if rate else 1 << 16)
    started = told_at = time.monotonic()
    sent = confirmed = told_sent = told_confirmed = 0
    while (now := time.monotonic()) - started < options["seconds"]:
        if rate and sent > (now - started) * rate:
            time.sleep(min(0.01, sent / rate - (now - started)))
            continue
        client.socket.sendall((before + STAMP.pack(now) + after) * piece)
        sent += piece
        while window and sent - confirmed > window - piece:
            confirmed = confirm(client, confirmed)
        if now - told_at >= REPORT_S:
            told.put({"published": sent - told_sent, "confirmed": confirmed - told_confirmed})
            told_at, told_sent, told_confirmed = now, sent, confirmed
    while window and confirmed < sent:
        confirmed = confirm(client, confirmed)
    seconds = time.monotonic() - started
    told.put({"published": sent - told_sent, "confirmed": confirmed - told_confirmed, "seconds": seconds})


def message_frames(name: str, size: int, persistent: bool, frame_max: int) -> tuple[bytes, bytes]:
    """The frames of a message, before and after the time that begins its body."""
    if size > frame_max - 8:
        raise Closed(f"a body of {size} bytes does not fit a frame of this broker ({frame_max})")
    out = bytearray()
    write_method(out, 1, BasicPublish(routing_key=name))
    properties = encode_properties(Properties(delivery_mode=2 if persistent else 1))
    header = b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + properties
    out += frame_head(2, 1, len(header)) + header + END + frame_head(3, 1, size)
    return bytes(out), bytes(size - SIZE_MIN) + END


def confirm(client: Client, confirmed: int) -> int:
    """Wait for a confirm; up to which message all are confirmed."""
    found = client.method()
    if isinstance(found, BasicNack):
        raise Closed("a message was refused")
    if isinstance(found, BasicAck):
        return max(confirmed, found.delivery_tag) if found.multiple else confirmed + 1
    return confirmed


def consume(client: Client, options: BenchOptions, name: str, told: "Queue[Report]") -> None:
    every = options["ack"]
    if every:
        client.call(BasicQos(0, options["prefetch"]), BasicQosOk)
    client.call(BasicConsume(name, no_ack=not every), BasicConsumeOk)
    client.socket.settimeout(DRAIN_S)
    Taking(client, options, told).run()


class Taking:
    """A consumer at work. All deliveries of a bench have one length, so all but the first are only counted."""

    def __init__(self, client: Client, options: BenchOptions, told: "Queue[Report]") -> None:
        self._client = client
        self._told = told
        self._every = options["ack"]
        self._size = options["size"]
        self._started = self._told_at = self._last = time.monotonic()
        self._publishing_until = self._started + options["seconds"]
        self._got = self._told_got = self._acked = 0
        self._late: list[float] = []

    def run(self) -> None:
        with suppress(TimeoutError):
            while not isinstance(self._client.method(), BasicDeliver):
                pass
            header = self._client.frame()[1]
            body = self._client.frame()[1]
            self._take(1, body, 0, len(body))
            # Method, header and body, each with its frame.
            self._count(self._client.last_size + len(header) + len(body) + 2 * FRAME_OVERHEAD)
        self._acknowledge(0)
        seconds = max(0.001, self._last - self._started)
        self._told.put({"consumed": self._got - self._told_got, "late": self._late, "seconds": seconds})

    def _count(self, length: int) -> None:
        data = self._client.rest()
        body_at = length - 1 - self._size
        while self._last < self._publishing_until + DRAIN_S:
            whole = len(data) // length
            if whole:
                self._take(whole, data, body_at, max(1, whole // SAMPLES_A_READ) * length)
                del data[: whole * length]
            octets = self._client.socket.recv(1 << 20)
            if not octets:
                return
            data += octets

    def _take(self, count: int, data: bytes | bytearray, body_at: int, stride: int) -> None:
        self._last = time.monotonic()
        self._got += count
        if len(self._late) < SAMPLES_MAX:
            places = range(body_at, len(data) - SIZE_MIN + 1, stride)[:SAMPLES_A_READ]
            self._late += [self._last - STAMP.unpack_from(data, at)[0] for at in places]
        if self._every and self._got - self._acked >= self._every:
            self._acknowledge(self._got)
        if self._last - self._told_at >= REPORT_S:
            self._told.put({"consumed": self._got - self._told_got, "late": self._late})
            self._told_at, self._told_got, self._late = self._last, self._got, []

    def _acknowledge(self, tag: int) -> None:
        """Acknowledge up to this delivery; 0 for all."""
        if self._every and self._got > self._acked:
            self._client.send(1, BasicAck(tag, multiple=True))
            self._acked = self._got
