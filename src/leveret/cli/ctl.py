"""leveretctl: rabbitmqctl's commands, arguments, output and exit codes, for a broker here or elsewhere.

Options stand anywhere, as rabbitmqctl's do, so they are taken out by hand and what is left are the command's arguments.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from leveret.cli.api import Api, Failed, Unreachable
from leveret.cli.ctl_commands import (
    COMMANDS,
    DATA,
    NO_USER,
    SOFTWARE,
    UNAVAILABLE,
    USAGE,
    Bad,
    Command,
    Options,
    Result,
    Table,
)
from leveret.cli.formats import FORMATS, lines, text

SHORT = {"-p": "vhost", "-n": "node", "-t": "timeout", "-q": "quiet", "-s": "silent", "-h": "help"}
WITH_VALUE = {"vhost", "node", "timeout", "formatter", "url", "data-dir", "priority", "apply-to", "limit", "description"}
WITH_VALUE |= {"tags", "default-queue-type", "per-connection-delay", "longnames-host"}
WITHOUT_VALUE = {"quiet", "silent", "no-table-headers", "if-empty", "if-unused", "global", "help", "longnames", "dry-run"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit."""
    try:
        sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))
    except BrokenPipeError:
        sys.exit(1)


def run(arguments: list[str]) -> int:
    try:
        words, flags = split(arguments)
        if "help" in flags or not words or words[0] == "help":
            show_help(words[1:] if words[:1] == ["help"] else words)
            return 0 if words or "help" in flags else USAGE
        command = COMMANDS.get(words[0])
        if command is None:
            raise Bad(f"Command '{words[0]}' not found. Try 'leveretctl help'.")
        return done(words[0], command, words[1:], flags)
    except Bad as bad:
        return complain(str(bad), bad.status)
    except Unreachable as error:
        return complain(f"{error}\nStart it with `leveret`, or say which with --data-dir or --url.", UNAVAILABLE)
    except Failed as error:
        return complain(str(error), status_of(error, arguments))


def split(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """What is no option, and the options with their values."""
    words: list[str] = []
    flags: dict[str, str] = {}
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            words += rest
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        name = SHORT.get(word, name)
        if name in WITH_VALUE:
            flags[name] = value if equals else following(rest, word)
        elif name in WITHOUT_VALUE:
            flags[name] = "true"
        else:
            raise Bad(f"Invalid option '{word}'")
    return words, flags


def following(rest: Iterator[str], option: str) -> str:
    value = next(rest, None)
    if value is None:
        raise Bad(f"{option} needs a value")
    return value


def done(name: str, command: Command, given: list[str], flags: dict[str, str]) -> int:
    if len(given) < command.least or (command.most is not None and len(given) > command.most):
        problem = "not enough arguments" if len(given) < command.least else "too many arguments"
        raise Bad(f"{problem}\nUsage: leveretctl [-p vhost] {name} {command.usage}".rstrip())
    form = flags.get("formatter", "table")
    if form not in FORMATS:
        raise Bad(f"Formatter '{form}' not found; there are {', '.join(FORMATS)}")
    options = Options(flags.get("vhost", "/"), flags)
    quiet = "quiet" in flags or "silent" in flags or form != "table"
    if command.banner and not quiet:
        click.echo(banner(command, given, options))
    data_dir = flags.get("data-dir") or os.environ.get("LEVERET_DATA_DIR", "leveret-data")
    api = Api(data_dir, flags.get("url") or os.environ.get("LEVERETCTL_URL"), float(flags.get("timeout", "60")))
    show(command.do(api, options, given), form, headers="silent" not in flags and "no-table-headers" not in flags)
    return 0


def banner(command: Command, given: list[str], options: Options) -> str:
    filled = [*given, "", "", "", ""]
    return command.banner.format(
        *filled, vhost=options.vhost, rest=", ".join(given[1:]), priority=options.flags.get("priority", "0")
    )


def show(result: Result, form: str, headers: bool) -> None:
    if isinstance(result, Table):
        for line in lines(result.rows, result.columns, form, headers):
            click.echo(line)
    elif isinstance(result, dict):
        click.echo(json.dumps(result, indent=2) if form == "json" else "\n".join(outline(result)))
    elif result is not None:
        click.echo(result)


def outline(found: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """An object as indented lines."""
    for name, value in found.items():
        indent = "  " * depth
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from outline(value, depth + 1)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{indent}{name}:"
            for one in value:
                yield from outline(one, depth + 1)
                yield ""
        else:
            yield f"{indent}{name}: {text(value)}"


def complain(reason: str, status: int) -> int:
    click.echo(f"Error: {reason}", err=True)
    return status


def status_of(error: Failed, arguments: list[str]) -> int:
    """rabbitmqctl's exit code for a refusal."""
    if error.status == 404:
        return NO_USER if any("user" in word or "permissions" in word for word in arguments[:4]) else DATA
    return {400: DATA, 401: DATA, 503: UNAVAILABLE}.get(error.status, SOFTWARE)


def show_help(words: list[str]) -> None:
    if words and words[0] in COMMANDS:
        click.echo(
            f"Usage: leveretctl [-p vhost] [-q] [--formatter table|json|csv] {words[0]} {COMMANDS[words[0]].usage}".rstrip()
        )
        return
    click.echo(
        "Usage: leveretctl [--data-dir DIR | --url URL] [-p vhost] [-q] [--formatter table|json|csv] <command> [arguments]"
    )
    click.echo("\nIt talks to the broker whose data folder is DIR (leveret-data), or to the HTTP API at URL.\n\nCommands:")
    for name, command in sorted(COMMANDS.items()):
        click.echo(f"  {name} {command.usage}".rstrip())


if __name__ == "__main__":
    main()
