"""What the nouns that talk to a broker share: which one, and how its answer is shown."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from leveret.cli.api import Api, Failed, Unreachable
from leveret.cli.formats import lines

F = TypeVar("F", bound=Callable[..., Any])

OUTPUTS = ("table", "json", "jsonl", "csv")


def which_broker(function: F) -> F:
    """The options that say which broker is asked."""
    folder = click.option(
        "--data-dir",
        envvar="LEVERET_DATA_DIR",
        default="leveret-data",
        metavar="DIR",
        show_default=True,
        help="Use the broker on this machine that has this data folder.",
    )
    return click.option(
        "--url", metavar="URL", help="Use the HTTP API at this URL, which may contain a user name and password."
    )(folder(function))


def how_shown(function: F) -> F:
    return click.option("-o", "output", type=click.Choice(OUTPUTS), default="table", show_default=True)(function)


def ask_broker(data_dir: str, url: str | None, what: Callable[[Api], Any]) -> Any:
    """Ask a broker; end with a line that says why if it does not answer, or refuses."""
    try:
        return what(Api(data_dir, url))
    except Unreachable as error:
        click.echo(f"leveret: {error}", err=True)
        sys.exit(69)
    except Failed as error:
        click.echo(f"leveret: {error}", err=True)
        sys.exit(1)


def show(rows: Sequence[dict[str, Any]], columns: Sequence[str], output: str) -> None:
    """Show rows: in a table only these columns, in JSON all."""
    if output == "json":
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif output == "jsonl":
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
    else:
        for line in lines(rows, columns, output):
            click.echo(line)
