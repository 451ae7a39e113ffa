"""How commands show what they found: a table with tabs or lines, JSON, CSV or Erlang's terms."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence

FORMATS = ("table", "json", "csv", "pretty_table", "erlang")

Rows = Sequence[Mapping[str, object]]


def lines(rows: Rows, columns: Sequence[str], form: str, headers: bool = True) -> Iterator[str]:
    """Lines that show these columns of each row."""
    if form == "json":
        yield "["
        for at, row in enumerate(rows):
            picked = {column: row.get(column, "") for column in columns}
            yield ("," if at else "") + json.dumps(picked, ensure_ascii=False, separators=(",", ":"))
        yield "]"
    elif form == "csv":
        if headers:
            yield csv_line(columns)
        for row in rows:
            yield csv_line([text(row.get(column)) for column in columns])
    elif form == "pretty_table":
        yield from pretty(rows, columns)
    elif form == "erlang":
        yield term([{column: row.get(column, "") for column in columns} for row in rows])
    else:
        if headers and rows:
            yield "\t".join(columns)
        for row in rows:
            yield "\t".join(text(row.get(column)) for column in columns)


def csv_line(values: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="", quoting=csv.QUOTE_ALL).writerow(values)
    return out.getvalue()


def pretty(rows: Rows, columns: Sequence[str]) -> Iterator[str]:
    """A table with a frame."""
    shown = [list(columns), *([text(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(columns))]
    yield frame("┌┬┐", widths)
    for at, row in enumerate(shown):
        if at:
            yield frame("├┼┤", widths)
        yield "│ " + " │ ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)) + " │"
    yield frame("└┴┘", widths)


def frame(corners: str, widths: Sequence[int]) -> str:
    return corners[0] + corners[1].join("─" * (width + 2) for width in widths) + corners[2]


def term(value: object) -> str:
    """A value as Erlang writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "undefined"
    if isinstance(value, dict):
        return "[" + ",".join(f"{{{atom(name)},{term(one)}}}" for name, one in value.items()) + "]"
    if isinstance(value, tuple):
        return "{" + ",".join(term(one) for one in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(term(one) for one in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'<<"{escaped}">>' if value.isascii() else f'<<"{escaped}"/utf8>>'
    return str(value)


def atom(name: str) -> str:
    return name if re.fullmatch("[a-z][a-zA-Z0-9_@]*", name) else f"'{name}'"


def text(value: object) -> str:
    """A value in a table, as rabbitmqctl writes it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "{" + ",".join(text(one) for one in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(text(one) for one in value) + "]"
    if isinstance(value, dict):
        return "[" + ",".join(f'{{"{name}",{quoted(one)}}}' for name, one in value.items()) + "]"
    return str(value)


def quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else text(value)
