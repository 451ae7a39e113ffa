"""Definitions out of this broker and into it, as RabbitMQ's files have them."""

import asyncio
from collections.abc import Iterator
from email.parser import BytesParser
from itertools import islice

from leveret.management.answers import Answer, Refused, bad_request
from leveret.management.asking import Ask
from leveret.management.routes import ADMINISTRATOR, Result, Route
from leveret.server.definitions_file import BadFile, Choices, Facts, export, export_vhost, parse, steps_of_import

# As many as are taken in one go, while others wait: some milliseconds.
STEPS = 100


def get_definitions(ask: Ask) -> Result:
    """Everything that is defined, in one file."""
    return as_file(ask, export(ask.broker))


def get_vhost_definitions(ask: Ask) -> Result:
    """What is defined in one vhost."""
    vhost = ask.broker.vhosts.get(ask.path["vhost"])
    if vhost is None:
        raise bad_request("vhost_not_found")
    return as_file(ask, export_vhost(vhost))


def as_file(ask: Ask, found: Facts) -> Answer:
    """An answer that a browser saves under the name it asks for."""
    name = "".join(letter for letter in ask.query.get("download", "") if letter.isprintable() and letter not in '";\\')
    return Answer(found, headers={"Content-Disposition": f"attachment; filename={name}"} if name else {})


async def post_definitions(ask: Ask) -> Result:
    """Define what a file says: all of it or, if anything in it is wrong, nothing.

    With `skip_unsupported` what has no counterpart here is left out, and the answer says what that is.
    """
    vhost = ask.path.get("vhost")
    if vhost is not None and vhost not in ask.broker.vhosts:
        raise Refused(404, "vhost_not_found")
    choices = Choices(vhost, ask.flag("skip_unsupported"))
    form = form_of(ask)
    try:
        found = parse(ask.body_octets if form is None else form.get("file", b""))
        async with ask.node.importing:
            await carry_out(ask, steps_of_import(ask.broker, found, choices))
    except BadFile as error:
        raise bad_request(str(error)) from None
    if form is not None and form.get("redirect"):
        return Answer(None, 303, {"Location": location(form["redirect"])})
    return Answer({"left_out": choices.left_out}) if choices.skip_unsupported else Answer(None, 204)


async def carry_out(ask: Ask, steps: Iterator[None]) -> None:
    """Take all steps, some at a time, and return when what they changed is on disk."""

    def take_some() -> bool:
        return sum(1 for _ in islice(steps, STEPS)) == STEPS

    while ask.node.do(take_some):
        await asyncio.sleep(0)
    await ask.change(lambda: None)


def form_of(ask: Ask) -> dict[str, bytes] | None:
    """The fields of a multipart form; None if the body is none."""
    kind = ask.headers.get("Content-Type", "")
    if not kind.lower().startswith("multipart/form-data"):
        return None
    message = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + ask.body_octets)
    fields = {}
    for part in message.get_payload() if message.is_multipart() else []:
        name = part.get_param("name", header="Content-Disposition")  # type: ignore[union-attr]
        payload = part.get_payload(decode=True)  # type: ignore[union-attr]
        if isinstance(payload, bytes):
            fields[str(name)] = payload
    if not fields:
        raise bad_request("the form has no fields")
    return fields


def location(redirect: bytes) -> str:
    """Where a page wants to go on; only to this server."""
    text = "".join(letter for letter in redirect.decode(errors="replace") if letter.isprintable())
    return text if text.startswith(("#", "./")) or (text.startswith("/") and not text.startswith(("//", "/\\"))) else "/"


ROUTES = [
    Route("GET", "/api/definitions", ADMINISTRATOR, get_definitions),
    Route("POST", "/api/definitions", ADMINISTRATOR, post_definitions),
    Route("GET", "/api/definitions/{vhost}", ADMINISTRATOR, get_vhost_definitions),
    Route("POST", "/api/definitions/{vhost}", ADMINISTRATOR, post_definitions),
    Route("GET", "/api/all-configuration", ADMINISTRATOR, get_definitions),
    Route("POST", "/api/all-configuration", ADMINISTRATOR, post_definitions),
]
