"""The command `leveret`: without a noun it starts the broker; the nouns are in modules of their own.

What a command needs is imported when it runs: `leveret --help` must be quick.
"""

import sys
from importlib import import_module
from typing import Any

import click

from leveret import __version__

# Module, and a line for --help.
NOUNS = {
    "bench": ("leveret.cli.bench", "Measure a broker's throughput and latency."),
    "check": ("leveret.cli.check", "Check a broker's health, for probes."),
    "definitions": ("leveret.cli.definitions", "Export, import and compare definitions."),
    "messages": ("leveret.cli.messages", "Peek at, get, publish, move and tail messages."),
    "store": ("leveret.cli.store", "Check, repair and back up a data folder."),
    "tls": ("leveret.cli.tls", "Make certificates for trying out TLS."),
    "work": ("leveret.cli.work", "Run workers from subscription files."),
    "top": ("leveret.cli.top", "Show the longest queues and message rates."),
}


class Nouns(click.Group):
    """Commands that are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(NOUNS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in NOUNS:
            return None
        command: click.Command = getattr(import_module(NOUNS[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in sorted(NOUNS.items())])


@click.group(cls=Nouns, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", type=str, metavar="FILE", help="Read settings from this TOML file.")
@click.option("--host", metavar="HOST", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", metavar="PORT", help="Port for AMQP clients; 0 picks a free one.  [default: 5672]")
@click.option("--management-port", metavar="PORT", help="Port of the HTTP API; 0 picks a free one.  [default: 15672]")
@click.option("--data-dir", metavar="DIR", help="Folder for durable data.  [default: leveret-data]")
@click.option(
    "--accept-loss", is_flag=True, default=None, help="Start even if definitions are damaged, without what is lost."
)
@click.option("--cluster", metavar="NAME", help="Take part in the cluster of this name.")
@click.option("--node", metavar="NAME", help="What this node is called in the cluster.  [default: leveret@<host name>]")
@click.option("--join", metavar="HOST:PORT", multiple=True, help="Another node's port for links; once for each.")
@click.option("--secret-file", metavar="FILE", help="A file with the cluster's secret, the same for all its nodes.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.  [default: info]")
@click.version_option(__version__, message="leveret %(version)s")
@click.pass_context
def main(context: click.Context, /, config: str | None, **flags: Any) -> None:
    """Start a message broker that speaks AMQP 0-9-1 as RabbitMQ does.

    Every setting can also be given in the TOML file, or as an environment variable LEVERET_<SETTING>. Flags override
    variables, and variables override the file.
    """
    flags["join"] = list(flags["join"]) or None
    given = [name for name, value in {"config": config, **flags}.items() if value is not None]
    if context.invoked_subcommand is None:
        from leveret.cli.serve import run  # noqa: PLC0415

        run(config, flags)
    elif given:
        raise click.UsageError(
            f"--{given[0].replace('_', '-')} cannot be used with the command '{context.invoked_subcommand}'"
        )


def fail(text: str, status: int) -> None:
    click.echo(f"leveret: {text}", err=True)
    sys.exit(status)
