"""The commands `leveret definitions …`: vhosts, users, rights, policies, queues, exchanges and bindings as one file."""

import json
import sys
from typing import Any

import click

from leveret.cli.broker_command import ask_broker, which_broker
from leveret.cli.command import Bad, definitions_in

# What tells two things of a kind apart.
KEYS = {
    "users": ("name",),
    "vhosts": ("name",),
    "permissions": ("user", "vhost"),
    "topic_permissions": ("user", "vhost", "exchange"),
    "parameters": ("component", "vhost", "name"),
    "global_parameters": ("name",),
    "policies": ("vhost", "name"),
    "queues": ("vhost", "name"),
    "exchanges": ("vhost", "name"),
    "bindings": ("vhost", "source", "destination_type", "destination", "routing_key", "arguments"),
}


@click.group()
def definitions() -> None:
    """Export, import and compare definitions, in RabbitMQ's format."""


@definitions.command("export")
@click.argument("file", default="-", type=click.Path(dir_okay=False, allow_dash=True))
@which_broker
def export(file: str, data_dir: str, url: str | None) -> None:
    """Write all definitions to FILE, or to standard output."""
    text = json.dumps(ask_broker(data_dir, url, lambda api: api.get("/api/definitions")), indent=2, ensure_ascii=False)
    if file == "-":
        click.echo(text)
    else:
        from leveret.store.modes import write_private  # noqa: PLC0415

        write_private(file, text)


@definitions.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--skip-unsupported", is_flag=True, help="Skip what RabbitMQ supports and Leveret does not, and list it.")
@which_broker
def import_(file: str, skip_unsupported: bool, data_dir: str, url: str | None) -> None:
    """Create or update everything that FILE defines. Nothing is deleted."""
    found = read(file)
    path = "/api/definitions?skip_unsupported=true" if skip_unsupported else "/api/definitions"
    answer = ask_broker(data_dir, url, lambda api: api.ask("POST", path, found))
    for line in (answer or {}).get("left_out", []):
        click.echo(f"skipped: {line}", err=True)


@definitions.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@which_broker
def diff(file: str, data_dir: str, url: str | None) -> None:
    """Compare FILE with the broker: - is only in the file, + only in the broker. Exits with 1 if they differ."""
    theirs = ask_broker(data_dir, url, lambda api: api.get("/api/definitions"))
    found = list(differences(read(file), theirs))
    for line in found:
        click.echo(line)
    sys.exit(1 if found else 0)


def read(file: str) -> dict[str, Any]:
    try:
        found = definitions_in(file)
    except Bad as error:
        raise click.ClickException(str(error)) from None
    if not isinstance(found, dict):
        raise click.ClickException(f"{file} has no definitions")
    return found


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """A line for each thing that only one of them has, or has otherwise."""
    found = []
    for kind, keys in KEYS.items():
        ours = {tuple(str(thing.get(key)) for key in keys): thing for thing in one.get(kind, [])}
        theirs = {tuple(str(thing.get(key)) for key in keys): thing for thing in other.get(kind, [])}
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) == theirs.get(key):
                continue
            if key in ours:
                found.append(f"- {kind} {json.dumps(ours[key], sort_keys=True)}")
            if key in theirs:
                found.append(f"+ {kind} {json.dumps(theirs[key], sort_keys=True)}")
    return found
