"""How commands show what they found: a table with tabs, JSON or CSV."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

FORMATS = ("table", "json", "csv")


def lines(rows: Sequence[dict[str, Any]], columns: Sequence[str], form: str, headers: bool = True) -> Iterator[str]:
    """Lines that show these columns of each row."""
    if form == "json":
        yield "["
        for at, row in enumerate(rows):
            picked = {column: row.get(column, "") for column in columns}
            yield ("," if at else "") + json.dumps(picked, ensure_ascii=False)
        yield "]"
    elif form == "csv":
        yield csv_line(columns)
        for row in rows:
            yield csv_line([text(row.get(column)) for column in columns])
    else:
        if headers and rows:
            yield "\t".join(columns)
        for row in rows:
            yield "\t".join(text(row.get(column)) for column in columns)


def csv_line(values: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(values)
    return out.getvalue()


def text(value: Any) -> str:
    """A value in a table, as rabbitmqctl writes it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(text(one) for one in value) + "]"
    if isinstance(value, dict):
        return "[" + ", ".join(f'{{"{name}",{quoted(one)}}}' for name, one in value.items()) + "]"
    return str(value)


def quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else text(value)
