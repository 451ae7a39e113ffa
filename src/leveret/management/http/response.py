"""An answer as aiohttp sends it."""

import logging

from aiohttp import web

from leveret.management.http.answer import Answer, LargeAnswer, Refused
from leveret.management.http.login import REALM
from leveret.management.http.origin import PAGE_HEADER
from leveret.management.http.pause import Pause

CONTENT_TYPES = {"json": "application/json", "text": "text/plain; charset=utf-8", "html": "text/html; charset=utf-8"}
HEADERS = {"Cache-Control": "no-cache", "Vary": "accept, accept-encoding, origin"}

log = logging.getLogger("leveret.http")


def respond(answer: Answer) -> web.Response:
    headers = {**HEADERS, **answer.headers}
    if answer.body is not None:
        headers["Content-Type"] = CONTENT_TYPES.get(answer.content_type, answer.content_type)
    return web.Response(status=answer.status, body=answer.octets(), headers=headers)


async def send_pieces(request: web.Request, answer: LargeAnswer) -> web.StreamResponse:
    """Send a large answer, with the loop's other work in between."""
    headers = {**HEADERS, **answer.headers, "Content-Type": CONTENT_TYPES.get(answer.content_type, answer.content_type)}
    response = web.StreamResponse(status=answer.status, headers=headers)
    response.content_length = sum(map(len, answer.pieces))
    pause = Pause()
    try:
        await response.prepare(request)
        for piece in answer.pieces if request.method != "HEAD" else ():
            await response.write(piece)
            await pause.rest()
        await response.write_eof()
    except ConnectionError:
        log.debug("%s: the client has left", request.remote)
    return response


def refusal(refused: Refused, request: web.Request) -> web.Response:
    """A fault's answer. Who looks at the page is asked for a password by the page, not by the browser."""
    response = respond(refused.answer())
    if refused.status == 401 and PAGE_HEADER not in request.headers:
        response.headers["WWW-Authenticate"] = REALM
    return response
