"""leveretctl: rabbitmqctl's commands, arguments, output and exit codes, for a broker here or elsewhere.

Options stand anywhere, as rabbitmqctl's do, so they are taken out by hand and what is left are the command's arguments.
"""

import difflib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

import click

from leveret.cli import ctl_commands, ctl_diagnostics, ctl_lists, ctl_node, ctl_tokens
from leveret.cli.aliases import install_aliases, tool_name
from leveret.cli.api import Api, Failed, Unreachable
from leveret.cli.command import DATA, NO_USER, SOFTWARE, UNAVAILABLE, USAGE, Bad, Command, Options, Result, Table, compact
from leveret.cli.completion import complete
from leveret.cli.ctl_unsupported import UNSUPPORTED
from leveret.cli.formats import FORMATS, lines, term, text

SHORT = {"-p": "vhost", "-n": "node", "-t": "timeout", "-q": "quiet", "-s": "silent", "-h": "help", "-l": "longnames"}
SHORT |= {"-e": "if-empty", "-u": "if-unused"}
WITH_VALUE = {"vhost", "node", "timeout", "formatter", "url", "data-dir", "priority", "apply-to", "limit", "description"}
WITH_VALUE |= {
    "tags",
    "default-queue-type",
    "per-connection-delay",
    "user",
    "unit",
    "address",
    "within",
    "object-type",
    "pid",
    "expires",
    "scopes",
}
WITH_VALUE |= {"address-family", "queue-timeout", "erlang-cookie", "printer", "object-type"}
WITHOUT_VALUE = {"quiet", "silent", "no-table-headers", "if-empty", "if-unused", "global", "help", "longnames", "dry-run"}
WITHOUT_VALUE |= {
    "online",
    "offline",
    "local",
    "by-source",
    "no-wait",
    "wait",
    "used",
    "ignore-existing",
    "pre-hashed-password",
    "skip-unsupported",
}


def autocomplete(api: Api, options: Options, given: list[str]) -> Result:
    """The commands that begin so."""
    return "\n".join(name for name in sorted(COMMANDS) if name.startswith(given[0]))


def aliases(api: Api, options: Options, given: list[str]) -> Result:
    return install_aliases(given[0])


COMMANDS: dict[str, Command] = {
    **ctl_commands.COMMANDS,
    **ctl_lists.COMMANDS,
    **ctl_node.COMMANDS,
    **ctl_tokens.COMMANDS,
    **ctl_diagnostics.COMMANDS,
    "autocomplete": Command(autocomplete, "<prefix>", "", 1, 1),
    "install-aliases": Command(aliases, "<folder>", "Making RabbitMQ's names in {0} ...", 1, 1),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit."""
    complete(COMMANDS, WITH_VALUE, WITHOUT_VALUE)
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
        return done(words[0], find(words[0]), words[1:], flags)
    except Bad as bad:
        return complain(str(bad), bad.status, bad.details)
    except Unreachable as error:
        return complain(f"{error}\nStart it with `leveret`, or say which with --data-dir or --url.", UNAVAILABLE)
    except Failed as error:
        return complain(str(error), status_of(error, arguments))


def find(name: str) -> Command:
    command = COMMANDS.get(name)
    if command is not None:
        return command
    if name in UNSUPPORTED:
        raise Bad(f"'{name}' is not supported: {UNSUPPORTED[name]}.", UNAVAILABLE)
    similar = difflib.get_close_matches(name, COMMANDS, 1)
    hint = f"Did you mean '{similar[0]}'?" if similar else f"Try '{tool_name()} help'."
    raise Bad(f"Command '{name}' not found.\n{hint}")


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
        raise Bad(f"{problem}\nUsage: {tool_name()} [-p vhost] {name} {command.usage}".rstrip())
    form = flags.get("formatter", "table")
    if form not in FORMATS:
        raise Bad(f"Formatter '{form}' not found; there are {', '.join(FORMATS)}")
    options = Options(flags.get("vhost", "/"), flags)
    data_dir = flags.get("data-dir") or os.environ.get("LEVERET_DATA_DIR", "leveret-data")
    api = Api(data_dir, flags.get("url") or os.environ.get("LEVERETCTL_URL"), options.timeout_s)
    quiet = "quiet" in flags or "silent" in flags or form in ("json", "csv")
    if command.banner and not quiet:
        click.echo(banner(command, given, options, api))
    show(command.do(api, options, given), form, headers="silent" not in flags and "no-table-headers" not in flags)
    return 0


def banner(command: Command, given: list[str], options: Options, api: Api) -> str:
    """What is said first; the node's name is asked for where it is in it."""
    filled = [*given, "", "", "", ""]
    node = ctl_node.node_of(api)["name"] if "{node}" in command.banner else ""
    return command.banner.format(
        *filled,
        node=node,
        vhost=options.vhost,
        rest=", ".join(given[1:]),
        priority=options.flags.get("priority", "0"),
        timeout=options.timeout_s,
        user=options.flags.get("user", "guest"),
    )


def show(result: Result, form: str, headers: bool) -> None:
    if isinstance(result, Table):
        for line in lines(result.rows, result.columns, form, headers):
            click.echo(line)
    elif isinstance(result, dict):
        click.echo({"json": compact, "erlang": term}.get(form, lambda found: "\n".join(outline(found)))(result))
    elif result is not None:
        click.echo(compact({"result": "ok", "value": result}) if form == "json" else result)


def outline(found: Mapping[str, object], depth: int = 0) -> Iterator[str]:
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


def complain(reason: str, status: int, details: dict[str, object] | None = None) -> int:
    """Say what is wrong as rabbitmqctl does; nothing if there is nothing to say."""
    if details is not None:
        click.echo(compact(details))
    elif reason:
        click.echo(f"Error:\n{reason}", err=True)
    return status


def status_of(error: Failed, arguments: list[str]) -> int:
    """rabbitmqctl's exit code for a refusal."""
    if error.status == 404:
        return NO_USER if any("user" in word or "permissions" in word for word in arguments[:4]) else DATA
    return {400: DATA, 401: DATA, 503: UNAVAILABLE}.get(error.status, SOFTWARE)


def show_help(words: list[str]) -> None:
    options = f"[-p vhost] [-q] [--formatter {'|'.join(FORMATS)}]"
    if words:
        click.echo(f"Usage: {tool_name()} {options} {words[0]} {find(words[0]).usage}".rstrip())
        return
    click.echo(f"Usage: {tool_name()} [--data-dir DIR | --url URL] {options} <command> [arguments]")
    click.echo(
        "\nConnects to the broker whose data folder is DIR (default: leveret-data), or to the HTTP API at URL.\n\nCommands:"
    )
    for name, command in sorted(COMMANDS.items()):
        click.echo(f"  {name} {command.usage}".rstrip())


if __name__ == "__main__":
    main()
