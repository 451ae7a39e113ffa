"""The last lines of the log."""

import logging

from leveret.management.http.answer import bad_request
from leveret.management.http.json import JsonObject
from leveret.management.http.list_query import name_filter
from leveret.management.http.request import Request, parse_int
from leveret.management.http.route import MONITOR, Route

LEVELS = ("debug", "info", "warning", "error")
LINES_MAX = 1_000


def get_log(request: Request) -> JsonObject:
    """The last lines of the log: those `since` a number, of a `level` and above, with `text` in them (`use_regex`)."""
    since = parse_int(request.query.get("since", "0"), "since")
    level = request.query.get("level", "debug")
    if level not in LEVELS:
        raise bad_request(f"[level] must be one of {', '.join(LEVELS)}, not {level}")
    least = logging.getLevelNamesMapping()[level.upper()]
    matches = name_filter(request.query.get("text", ""), request.query.get("use_regex") == "true")
    lines = request.statistics.log_lines
    found: list[JsonObject] = [
        {"number": line.number, "time": line.at, "level": line.level, "logger": line.logger, "text": line.text}
        for line in lines.since(since)
        if logging.getLevelNamesMapping()[line.level.upper()] >= least and matches(f"{line.logger} {line.text}")
    ]
    return {"lines": found[-LINES_MAX:], "last": lines.count}


ROUTES = [Route("GET", "/api/log", MONITOR, get_log)]
