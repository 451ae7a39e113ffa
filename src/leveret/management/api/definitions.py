"""Export and import of definitions, in the form of RabbitMQ's files."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from email.message import Message
from email.parser import BytesParser
from itertools import islice
from typing import Any

from leveret.broker.command import Command
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
from leveret.management.http.answer import Answer, Body, LargeAnswer, Refused, bad_request
from leveret.management.http.json import as_json
from leveret.management.http.pause import Pause
from leveret.management.http.request import Request
from leveret.management.http.route import ADMINISTRATOR, Result, Route

# As many as are taken in one go, while others wait: some milliseconds.
STEPS = 100


async def get_definitions(request: Request) -> Result:
    """All definitions, as one file."""
    vhosts = [vhost for _, vhost in sorted(request.broker.vhosts.items())]
    return await as_file(request, export_head(request.broker), [({"vhost": vhost.name}, vhost) for vhost in vhosts])


async def get_vhost_definitions(request: Request) -> Result:
    """The definitions of one vhost."""
    vhost = request.broker.vhosts.get(request.path["vhost"])
    if vhost is None:
        raise bad_request("vhost_not_found")
    return await as_file(request, export_vhost_head(), [({}, vhost)])


async def as_file(request: Request, head: Facts, vhosts: list[tuple[Facts, VirtualHost]]) -> Answer:
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
    name = "".join(letter for letter in request.query.get("download", "") if letter.isprintable() and letter not in '";\\')
    return LargeAnswer(body.pieces, {"Content-Disposition": f"attachment; filename={name}"} if name else {})


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


async def post_definitions(request: Request) -> Result:
    """Import definitions: all of a file or, if anything in it is wrong, nothing.

    With `skip_unsupported` what has no counterpart here is left out, and the answer says what that is.
    """
    vhost = request.path.get("vhost")
    if vhost is not None and vhost not in request.broker.vhosts:
        raise Refused(404, "vhost_not_found")
    choices = Choices(vhost, request.flag("skip_unsupported"))
    form = form_of(request)
    try:
        found = parse(request.body_octets if form is None else form.get("file", b""))
        async with request.node.importing:
            await carry_out(request, steps_of_import(request.broker, found, choices))
    except BadFile as error:
        raise bad_request(str(error)) from None
    if form is not None and form.get("redirect"):
        return Answer(None, 303, {"Location": location(form["redirect"])})
    return Answer({"left_out": choices.left_out}) if choices.skip_unsupported else Answer(None, 204)


async def carry_out(request: Request, steps: Iterator[Command | None]) -> None:
    """Take all steps, some at a time, and return when what they changed is on disk."""

    def take_some() -> list[Command | None]:
        """As many as can be taken without waiting."""
        taken: list[Command | None] = []
        for step in islice(steps, STEPS):
            taken.append(step)
            if step is not None:
                break
        return taken

    while taken := request.node.do(request.attributed(take_some)):
        if taken[-1] is not None:
            await request.node.agree(taken[-1])
        await asyncio.sleep(0)
    await request.synced()


def form_of(request: Request) -> dict[str, bytes] | None:
    """The fields of a multipart form; None if the body is none."""
    kind = request.headers.get("Content-Type", "")
    if not kind.lower().startswith("multipart/form-data"):
        return None
    message = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + request.body_octets)
    fields = {}
    parts = message.get_payload()
    for part in parts if isinstance(parts, list) else []:
        payload = part.get_payload(decode=True) if isinstance(part, Message) else None
        if isinstance(part, Message) and isinstance(payload, bytes):
            fields[str(part.get_param("name", header="Content-Disposition"))] = payload
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
