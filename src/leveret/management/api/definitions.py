"""Definitions out of this broker and into it, as RabbitMQ's files have them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from email.parser import BytesParser
from itertools import islice
from typing import Any

from leveret.broker.vhost import VirtualHost
from leveret.definitions.export import (
    Section,
    export_head,
    export_vhost_head,
    is_text,
    sections,
    warn_left_out,
    without_unwritable,
)
from leveret.definitions.file import BadFile, parse
from leveret.definitions.file_import import Choices, steps_of_import
from leveret.definitions.item import Facts
from leveret.management.answers import Answer, InPieces, Refused, as_json, bad_request
from leveret.management.asking import Ask
from leveret.management.pieces import Body, Pause
from leveret.management.routes import ADMINISTRATOR, Result, Route

# As many as are taken in one go, while others wait: some milliseconds.
STEPS = 100


async def get_definitions(ask: Ask) -> Result:
    """Everything that is defined, in one file."""
    vhosts = [vhost for _, vhost in sorted(ask.broker.vhosts.items())]
    return await as_file(ask, export_head(ask.broker), [({"vhost": vhost.name}, vhost) for vhost in vhosts])


async def get_vhost_definitions(ask: Ask) -> Result:
    """What is defined in one vhost."""
    vhost = ask.broker.vhosts.get(ask.path["vhost"])
    if vhost is None:
        raise bad_request("vhost_not_found")
    return await as_file(ask, export_vhost_head(), [({}, vhost)])


async def as_file(ask: Ask, head: Facts, vhosts: list[tuple[Facts, VirtualHost]]) -> Answer:
    """An answer that a browser saves under the name it asks for: what is known, and what is in these vhosts.

    It is made in pieces, as `export` and `export_vhost` would make it at once; each thing in a vhost begins
    with what is given with that.
    """
    pause, body = Pause(), Body()
    body.add(as_json(without_unwritable(head))[:-1])
    found = [(before, sections(vhost)) for before, vhost in vhosts]
    for kind in found[0][1] if found else ():
        body.add(b',"%b":[' % kind.encode())
        first = True
        for before, of_vhost in found:
            async for items in facts_of(pause, kind, of_vhost[kind], before):
                body.add((b"" if first else b",") + b",".join(map(as_json, items)))
                first = False
        body.add(b"]")
    body.add(b"}")
    name = "".join(letter for letter in ask.query.get("download", "") if letter.isprintable() and letter not in '";\\')
    return InPieces(body.pieces, {"Content-Disposition": f"attachment; filename={name}"} if name else {})


async def facts_of(pause: Pause, kind: str, section: Section, before: Facts) -> AsyncIterator[list[Facts]]:
    """What is said of the things in a section, some at a time."""
    things: list[Any] = []
    async for some in pause.groups(section.things):
        things += some
    things = await pause.in_order(things, section.key)
    async for some in pause.taken(things):
        items = [{**before, **section.facts(thing)} for thing in some]
        left = [item for item in items if not is_text(item)]
        if left:
            warn_left_out(kind, left)
            items = [item for item in items if is_text(item)]
        if items:
            yield items


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
