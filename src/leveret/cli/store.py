"""The commands `leveret store …`: look at a data folder, repair and copy it. What they need is imported when they run."""

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from leveret.store.inspection import Inspection

DIRECTORY = click.Path(path_type=Path)

WHOLE, DAMAGED, REFUSED = 0, 1, 2


@click.group()
def store() -> None:
    """Check, inspect, repair and back up a data folder."""
    # What recovery would log is said by the commands themselves.
    logging.getLogger("leveret.store").addHandler(logging.NullHandler())
    logging.getLogger("leveret.store").propagate = False


@store.command()
@click.argument("folder", metavar="DIR", type=DIRECTORY)
def check(folder: Path) -> None:
    """Read everything in the data folder of a stopped broker, without changing anything.

    Exits with 0 if it is intact, with 1 if something is damaged, and with 2 if it is not a data folder or is in use.
    """
    from leveret.store.inspection import Fault, Inspection, NotData, Unreadable, kept_out  # noqa: PLC0415
    from leveret.store.opened import InUse  # noqa: PLC0415
    from leveret.store.rows import FILE_NAME, UnknownFormat  # noqa: PLC0415

    try:
        with kept_out(folder):
            found = Inspection(folder)
            try:
                found.read_definitions()
                found.check_definitions()
            except Unreadable as error:
                found.faults.append(Fault(FILE_NAME, None, str(error)))
            found.check_journal()
            counts = found.statistics()
    except (NotData, InUse, UnknownFormat) as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"cannot read {error.filename or folder}: {error.strerror}")
    report(found, counts)


def report(found: "Inspection", counts: dict[str, Any]) -> None:
    for fault in found.faults:
        click.echo(str(fault))
    damaged = any(fault.lost for fault in found.faults)
    messages, queues = count(counts["messages"], "message"), count(len(counts["queues"]), "queue")
    batches, segments = count(found.batch_count, "batch", "batches"), count(len(counts["segments"]), "segment")
    click.echo(f"{'damaged' if damaged else 'intact'}: {messages} in {queues}, {batches} in {segments}")
    sys.exit(DAMAGED if damaged else WHOLE)


@store.command()
@click.argument("folder", metavar="DIR", type=DIRECTORY)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stat(folder: Path, as_json: bool) -> None:
    """Show queues, segments and definitions in the data folder of a stopped broker."""
    from leveret.store.inspection import Inspection, NotData, Unreadable, kept_out  # noqa: PLC0415
    from leveret.store.opened import InUse  # noqa: PLC0415
    from leveret.store.rows import FILE_NAME, UnknownFormat  # noqa: PLC0415

    try:
        with kept_out(folder):
            found = Inspection(folder)
            found.read_definitions()
            counts = found.statistics()
    except (NotData, InUse, UnknownFormat) as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"cannot read {error.filename or folder}: {error.strerror}")
    except Unreadable as error:
        click.echo(f"leveret: {folder / FILE_NAME}: {error}", err=True)
        sys.exit(DAMAGED)
    if as_json:
        click.echo(json.dumps(counts, indent=2))
    else:
        show(counts)


def show(counts: dict[str, Any]) -> None:
    click.echo(f"format {counts['format']}, {'shut down cleanly' if counts['clean'] else 'not shut down cleanly'}")
    click.echo("definitions: " + ", ".join(f"{number} {kind}" for kind, number in counts["definitions"].items()))
    rows = [("vhost", "queue", "messages", "bytes")]
    for queue in counts["queues"]:
        name = f"({queue['name']})" if queue["hidden"] else queue["name"]
        rows.append((queue["vhost"], name, str(queue["messages"]), str(queue["bytes"])))
    rows.append(("", "", str(counts["messages"]), str(counts["bytes"])))
    table(rows)
    rows = [("", "segment", "bytes", "live")]
    for segment in counts["segments"]:
        share = 100 * segment["live_places"] // segment["places"] if segment["places"] else 0
        rows.append(("", segment["name"], str(segment["bytes"]), f"{share} %"))
    table(rows)


def table(rows: list[tuple[str, str, str, str]]) -> None:
    """Two columns of names, two of numbers."""
    # A name that a client chose must not pass for another line.
    rows = [(shown(one), shown(two), three, four) for one, two, three, four in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    click.echo()
    for one, two, three, four in rows:
        line = f"{one:{widths[0]}}  {two:{widths[1]}}  {three:>{widths[2]}}  {four:>{widths[3]}}"
        click.echo(line.strip() if not widths[0] else line.rstrip())


def shown(name: str) -> str:
    return name if name.isprintable() else repr(name)


@store.command()
@click.argument("folder", metavar="DIR", type=DIRECTORY)
def repair(folder: Path) -> None:
    """Repair a data folder whose definitions are damaged, so that a broker can start on it.

    Messages whose queue is lost are kept, in queues of the vhost 'recovered'. Files that cannot be read are renamed.
    Copy the folder first if you can.
    """
    from leveret.store import repair as made  # noqa: PLC0415
    from leveret.store.inspection import segment_names  # noqa: PLC0415
    from leveret.store.opened import InUse, Unusable  # noqa: PLC0415
    from leveret.store.rows import FILE_NAME, UnknownFormat  # noqa: PLC0415

    if not segment_names(folder) and not (folder / FILE_NAME).exists():
        refuse(f"{folder} is not a data folder")
    try:
        said = made.repair(folder)
    except (InUse, UnknownFormat, Unusable) as error:
        refuse(str(error))
    for line in said:
        click.echo(line)


@store.command()
@click.argument("folder", metavar="DIR", type=DIRECTORY)
@click.argument("target", metavar="TARGET", type=DIRECTORY)
def backup(folder: Path, target: Path) -> None:
    """Copy a data folder to TARGET, even while its broker is running.

    TARGET must not exist, or must be empty. The copy has every message that was confirmed before it began and not yet
    consumed. Start a broker on it with --data-dir TARGET.
    """
    import sqlite3  # noqa: PLC0415

    from leveret.store import backup as made  # noqa: PLC0415
    from leveret.store.inspection import NotData  # noqa: PLC0415
    from leveret.store.rows import FILE_NAME  # noqa: PLC0415

    try:
        done = made.backup(folder, target)
    except (NotData, made.TargetExists) as error:
        refuse(str(error))
    except OSError as error:
        click.echo(f"leveret: cannot copy {folder} to {target}: {error.strerror}", err=True)
        sys.exit(DAMAGED)
    except sqlite3.Error as error:
        click.echo(f"leveret: cannot copy {folder} to {target}: {FILE_NAME}: {error}", err=True)
        sys.exit(DAMAGED)
    state = "a running broker's" if done.running else "a stopped broker's"
    click.echo(f"copied {state} {count(done.segment_count, 'segment')}, {count(done.byte_count, 'byte')}, to {target}")


def count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def refuse(text: str) -> NoReturn:
    click.echo(f"leveret: {text}", err=True)
    sys.exit(REFUSED)
