"""The commands of leveretctl for API keys, which rabbitmqctl does not have."""

from leveret.cli.api import Api
from leveret.cli.command import DATA, Bad, Command, Options, Result, Table, deleting

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(text: str) -> int:
    """A time: a number of seconds, or of what is behind it: 90d."""
    digits = text[:-1] if text[-1:] in UNITS else text
    if not digits.isdigit() or not int(digits):
        raise Bad(f"bad argument: {text} is no time such as 3600, 12h or 90d", DATA)
    return int(digits) * UNITS.get(text[-1:], 1)


def add_token(api: Api, options: Options, given: list[str]) -> Result:
    body: dict[str, object] = {"user": given[0]}
    if "expires" in options.flags:
        body["expires_in"] = seconds(options.flags["expires"])
    if "scopes" in options.flags:
        body["scopes"] = [scope.strip() for scope in options.flags["scopes"].split(",")]
    made = api.ask("POST", "/api/tokens", body)
    return Table([{"id": made["id"], "token": made["token"]}], ["id", "token"])


def list_tokens(api: Api, options: Options, given: list[str]) -> Result:
    rows = [row for row in api.get("/api/tokens") if not given or row["user"] == given[0]]
    return Table(rows, ["id", "user", "scopes", "created_at", "expires_at"])


COMMANDS: dict[str, Command] = {
    "add_token": Command(
        add_token,
        "<username> [--expires <time>] [--scopes <scope>,...]",
        'Adding a token for user "{0}" ...',
        1,
        1,
    ),
    "delete_token": Command(
        deleting("/api/tokens/{0}", 'Token "{0}" does not exist', DATA), "<id>", 'Deleting token "{0}" ...', 1, 1
    ),
    "list_tokens": Command(list_tokens, "[<username>]", "Listing tokens ...", 0, 1),
}
