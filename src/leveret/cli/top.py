"""The command `leveret top`: the busiest queues and the whole, once or again and again."""

import json
import sys
import time
from typing import Any

import click

from leveret.cli.api import Api
from leveret.cli.broker_command import ask_broker, which_broker

ROWS = 20
CLEAR = "\x1b[H\x1b[2J"


@click.command()
@click.option("--once", is_flag=True, help="Show them once and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each refresh.")
@click.option("--every", default=2.0, show_default=True, metavar="SECONDS", help="Refresh interval.")
@which_broker
def top(once: bool, as_json: bool, every: float, data_dir: str, url: str | None) -> None:
    """Show message rates, totals and the longest queues, until Ctrl-C."""
    try:
        while True:
            found = ask_broker(data_dir, url, look)
            if as_json:
                click.echo(json.dumps(found))
            else:
                click.echo(("" if once else CLEAR) + "\n".join(shown(found)))
            if once:
                return
            time.sleep(every)
    except KeyboardInterrupt:
        sys.exit(130)


def look(api: Api) -> dict[str, Any]:
    overview = api.get("/api/overview")
    stats = overview.get("message_stats", {})
    queues = api.get(f"/api/queues?sort=messages&sort_reverse=true&page=1&page_size={ROWS}")["items"]
    return {
        "node": overview["node"],
        "rates": {name: stats.get(f"{name}_details", {}).get("rate", 0.0) for name in ("publish", "deliver_get", "ack")},
        "totals": overview["object_totals"] | overview["queue_totals"],
        "queues": [
            {key: queue.get(key, 0) for key in ("vhost", "name", "messages", "messages_ready", "consumers")}
            for queue in queues
        ],
    }


def shown(found: dict[str, Any]) -> list[str]:
    rates, totals = found["rates"], found["totals"]
    names = ("messages", "queues", "connections", "channels", "consumers")
    return [
        f"{found['node']}   publish {rates['publish']:,.0f}/s   deliver {rates['deliver_get']:,.0f}/s   "
        f"ack {rates['ack']:,.0f}/s",
        "   ".join(f"{name} {totals.get(name, 0):,}" for name in names),
        "",
        f"{'messages':>12}{'ready':>12}{'consumers':>11}  queue",
        *(row(queue) for queue in found["queues"]),
    ]


def row(queue: dict[str, Any]) -> str:
    counts = f"{queue['messages']:>12,}{queue['messages_ready']:>12,}{queue['consumers']:>11,}"
    return f"{counts}  {queue['vhost']} {queue['name']}"
