"""The commands `leveret messages …`: look at a queue without changing it, get, publish, move, follow."""

import sys
import time

import click

from leveret.cli.api import Api, part
from leveret.cli.broker_command import ask_broker, how_shown, show, which_broker

COLUMNS = ("exchange", "routing_key", "redelivered", "payload_bytes", "payload")
POLL_S = 0.5
in_vhost = click.option("-p", "--vhost", default="/", show_default=True)


@click.group()
def messages() -> None:
    """Peek at, get, publish, move and tail messages."""


@messages.command()
@click.argument("queue")
@click.option("-n", "--count", default=10, show_default=True)
@click.option("--offset", default=0, show_default=True)
@in_vhost
@how_shown
@which_broker
def peek(queue: str, count: int, offset: int, vhost: str, output: str, data_dir: str, url: str | None) -> None:
    """Show messages in QUEUE without changing anything, not even their redelivered flag."""
    path = f"/api/queues/{part(vhost)}/{part(queue)}/messages?offset={offset}&count={count}"
    show(ask_broker(data_dir, url, lambda api: api.get(path)), COLUMNS, output)


@messages.command()
@click.argument("queue")
@click.option("-n", "--count", default=1, show_default=True)
@click.option("--requeue", is_flag=True, help="Requeue them, marked as redelivered.")
@in_vhost
@how_shown
@which_broker
def get(queue: str, count: int, requeue: bool, vhost: str, output: str, data_dir: str, url: str | None) -> None:
    """Take messages from QUEUE."""
    body = {"count": count, "ackmode": f"ack_requeue_{str(requeue).lower()}", "encoding": "auto"}
    path = f"/api/queues/{part(vhost)}/{part(queue)}/get"
    show(ask_broker(data_dir, url, lambda api: api.ask("POST", path, body)), COLUMNS, output)


@messages.command()
@click.argument("routing_key")
@click.argument("payload", default="-")
@click.option("-x", "--exchange", default="", help="[default: the default exchange, which routes to the queue of that name]")
@click.option("--persistent/--transient", default=True, show_default=True)
@in_vhost
@which_broker
def publish(
    routing_key: str, payload: str, exchange: str, persistent: bool, vhost: str, data_dir: str, url: str | None
) -> None:
    """Publish PAYLOAD, or standard input. Exits with 1 if the message was not routed to any queue."""
    text = sys.stdin.read() if payload == "-" else payload
    properties = {"delivery_mode": 2 if persistent else 1}
    body = {"properties": properties, "routing_key": routing_key, "payload": text, "payload_encoding": "string"}
    path = f"/api/exchanges/{part(vhost)}/{part(exchange or 'amq.default')}/publish"
    routed = ask_broker(data_dir, url, lambda api: api.ask("POST", path, body))["routed"]
    if not routed:
        click.echo("leveret: the message was not routed to any queue", err=True)
        sys.exit(1)


@messages.command()
@click.argument("source")
@click.argument("destination")
@click.option("-n", "--count", type=int, help="[default: all]")
@in_vhost
@which_broker
def move(source: str, destination: str, count: int | None, vhost: str, data_dir: str, url: str | None) -> None:
    """Move messages from the queue SOURCE to the queue DESTINATION, in order."""
    body: dict[str, object] = {"queue": destination} | ({} if count is None else {"count": count})
    path = f"/api/queues/{part(vhost)}/{part(source)}/move"
    answer = ask_broker(data_dir, url, lambda api: api.ask("POST", path, body)) or {}
    click.echo(f"moved {answer.get('moved', '')}".rstrip())


@messages.command()
@click.argument("queue")
@in_vhost
@how_shown
@which_broker
def tail(queue: str, vhost: str, output: str, data_dir: str, url: str | None) -> None:
    """Show messages as they arrive in QUEUE, without taking them, until Ctrl-C."""

    def follow(api: Api) -> None:
        path = f"/api/queues/{part(vhost)}/{part(queue)}"
        seen = int(api.get(path)["messages_ready"])
        while True:
            ready = int(api.get(path)["messages_ready"])
            if ready > seen:
                show(api.get(f"{path}/messages?offset={seen}&count={ready - seen}"), COLUMNS, output)
            seen = ready
            time.sleep(POLL_S)

    try:
        ask_broker(data_dir, url, follow)
    except KeyboardInterrupt:
        sys.exit(130)
