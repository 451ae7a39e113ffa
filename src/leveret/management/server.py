"""aiohttp in the broker's loop: requests come in, are let through or refused, and are answered by the routes."""

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from aiohttp import web

from leveret.broker.access import User
from leveret.errors import AMQPError
from leveret.management.api import ROUTES
from leveret.management.http.answer import Answer, LargeAnswer, Refused, StreamAnswer, from_fault
from leveret.management.http.client_timeout import TimedClient, TimeLimits, client_of
from leveret.management.http.login import REALM, LocalUser, login
from leveret.management.http.pause import Pause
from leveret.management.http.request import Request
from leveret.management.http.route import ANYONE, Route
from leveret.management.prometheus import endpoint
from leveret.management.statistics.sampler import Sampler
from leveret.server.listener import CONTROL_SHARE, HTTP_SHARE, Factory, Listener, listen, listen_at

if TYPE_CHECKING:
    from leveret.server.node import Node

# As RabbitMQ's; definitions may be larger.
BODY_MAX = 20 << 20
# aiohttp waits twice so long for a request that is being answered.
STOP_S = 0.2
STREAMS_MAX = 100

CONTENT_TYPES = {"json": "application/json", "text": "text/plain; charset=utf-8", "html": "text/html; charset=utf-8"}
HEADERS = {"Cache-Control": "no-cache", "Vary": "accept, accept-encoding, origin", "X-Content-Type-Options": "nosniff"}

PART = re.compile(r"\{(\w+)\}")
SLASH = "_slash"

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger("leveret.http")


class Management:
    """The HTTP listener of one node. When it stops, requests have some seconds to end."""

    def __init__(self, node: "Node", patience_s: float = STOP_S) -> None:
        self._node = node
        self._patience_s = patience_s
        self._sampler = Sampler(node)
        self._runners: list[web.AppRunner] = []
        self._listeners: list[Listener] = []
        config = node.config
        self._limits = TimeLimits(config.management_request_timeout, config.management_idle_timeout)
        self._clients: set[TimedClient] = set()
        self._streams: set[asyncio.Task[object] | None] = set()
        self._socket: Path | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; where that is. OSError if it cannot be."""
        self._sampler.start()
        return await self._listen(host, port, [*ROUTES, *endpoint.ROUTES])

    async def start_metrics(self, host: str, port: int) -> tuple[str, int]:
        """Listen for those who only want metrics."""
        return await self._listen(host, port, endpoint.ROUTES)

    async def _listen(self, host: str, port: int, routes: list[Route]) -> tuple[str, int]:
        client = await self._client(routes, None)
        try:
            listener = await listen(host, port, client, HTTP_SHARE)
        except BaseException:
            await self.stop()
            raise
        self._listeners.append(listener)
        return listener.address

    async def open_socket(self, path: Path) -> None:
        """Listen on a UNIX socket too, where no password is asked for: only its owner may open it."""
        self._socket = path
        client = await self._client(ROUTES, LocalUser())
        try:
            self._listeners.append(listen_at(path, client, CONTROL_SHARE))
        except OSError as error:
            # Such as a path that is too long for a socket.
            log.warning("no socket for leveretctl at %s: %s", path, error)

    async def _client(self, routes: list[Route], local: User | None) -> Factory:
        """What makes the protocol of a client that may use these routes."""
        app = web.Application(client_max_size=BODY_MAX)
        for route in routes:
            for path in patterns_of(route.path):
                app.router.add_route(route.method, path, self._handler(route, local))
                if route.method == "GET":
                    app.router.add_route("HEAD", path, self._handler(route, local))
        app.middlewares.append(self._respond)
        app.middlewares.append(self._faults)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=self._patience_s, handle_signals=False)
        await runner.setup()
        self._runners.append(runner)
        server = runner.server
        assert server is not None
        return lambda: TimedClient(server(), self._limits, self._clients)

    async def stop(self) -> None:
        self._sampler.close()
        for listener in self._listeners:
            await listener.close()
        for client in list(self._clients):
            client.end_unless_answering()
        for task in self._streams:
            if task is not None:
                task.cancel()
        while self._runners:
            await self._runners.pop().cleanup()
        if self._socket is not None:
            # In a folder that may no longer be written it stays, and the next start makes it anew.
            with suppress(OSError):
                self._socket.unlink(missing_ok=True)

    def _handler(self, route: Route, local: User | None) -> Handle:
        async def handle(request: web.Request) -> web.StreamResponse:
            answer = await self._answer(route, request, local)
            if isinstance(answer, LargeAnswer):
                return await send_pieces(request, answer)
            return await self._stream(request, answer) if isinstance(answer, StreamAnswer) else respond(answer)

        return handle

    async def _answer(self, route: Route, incoming: web.Request, local: User | None) -> Answer:
        path = parts_of(route.path, incoming.rel_url.raw_path)
        user = local
        if user is None and route.level != ANYONE:
            user = login(self._node.broker, incoming, route.level, path.get("vhost"))
        request = Request(self._node, self._sampler, user, path, incoming.query, incoming.headers, incoming.remote or "")
        if incoming.can_read_body:
            request.body_octets = await read_body(incoming)
        result = route.handler(request)
        if inspect.isawaitable(result):
            result = await result
        return result if isinstance(result, Answer) else Answer(result)

    async def _stream(self, request: web.Request, answer: StreamAnswer) -> web.StreamResponse:
        """Send an answer piece by piece, until the client is gone or the broker stops."""
        if len(self._streams) >= STREAMS_MAX:
            raise Refused(503, f"there are {STREAMS_MAX} streams already")
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": answer.content_type})
        task = asyncio.current_task()
        self._streams.add(task)
        try:
            await response.prepare(request)
            if request.method != "HEAD":
                async for piece in answer.pieces:
                    await response.write(piece)
        except ConnectionError:
            log.debug("%s: no longer there", request.remote)
        finally:
            self._streams.discard(task)
        return response

    @web.middleware
    async def _respond(self, request: web.Request, handler: Handle) -> web.StreamResponse:
        """Send the answer, while the client goes on reading it."""
        client = client_of(request.transport)
        if client is None:
            return web.Response()
        with client.answering():
            response = await handler(request)
            # Who is gone is not told; aiohttp finds that out itself.
            with suppress(ConnectionError):
                await response.prepare(request)
                await response.write_eof()
        return response

    @web.middleware
    async def _faults(self, request: web.Request, handler: Handle) -> web.StreamResponse:
        """Whatever goes wrong has an answer, in RabbitMQ's form."""
        try:
            if request.method == "OPTIONS":
                return web.Response(headers={"Allow": allowed_methods(request)})
            return await handler(request)
        except Refused as refused:
            return refusal(refused)
        except AMQPError as error:
            return refusal(from_fault(error))
        except web.HTTPNotFound:
            return refusal(Refused(404, "Not Found", "Object Not Found"))
        except web.HTTPMethodNotAllowed as error:
            response = refusal(Refused(405, "Method Not Allowed", "Method Not Allowed"))
            response.headers["Allow"] = error.headers.get("Allow", "")
            return response
        except web.HTTPRequestEntityTooLarge:
            return refusal(Refused(413, f"the body is larger than {BODY_MAX} bytes"))
        except (asyncio.CancelledError, web.HTTPException):
            raise
        except web.RequestPayloadError as error:
            return refusal(Refused(400, f"the body cannot be read: {error}"))
        except ConnectionError:
            log.debug("%s: gone before its request was complete", request.remote)
            return refusal(Refused(400, "the request is incomplete"))
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return refusal(Refused(500, "Internal Server Error"))


async def read_body(request: web.Request) -> bytes:
    client = client_of(request.transport)
    if client is None:
        raise ConnectionResetError
    with client.reading():
        return await request.read()


def patterns_of(path: str) -> list[str]:
    """A route's path for aiohttp, which would take no braces in names, and no slash at the end."""
    if "{" not in path:
        return [path, f"{path}/"]
    return [PART.sub(r"{\1:[^/]+}", path) + f"{{{SLASH}:/?}}"]


def parts_of(pattern: str, raw_path: str) -> dict[str, str]:
    """The named parts of a path, any octets: aiohttp would leave those in percents that are no UTF-8."""
    pairs = zip(pattern.split("/"), raw_path.split("/"), strict=False)
    found = {name[1:-1]: unquote(value, errors="surrogateescape") for name, value in pairs if name.startswith("{")}
    return {name: exchange_name(name, value) for name, value in found.items()}


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
        log.debug("%s: no longer there", request.remote)
    return response


def refusal(refused: Refused) -> web.Response:
    response = respond(refused.answer())
    if refused.status == 401:
        response.headers["WWW-Authenticate"] = REALM
    return response


def allowed_methods(request: web.Request) -> str:
    error = request.match_info.http_exception
    if isinstance(error, web.HTTPMethodNotAllowed):
        return ", ".join(sorted({*error.allowed_methods, "OPTIONS"}))
    return "OPTIONS"


def exchange_name(part: str, value: str) -> str:
    """In paths the default exchange has a name."""
    return "" if value == "amq.default" and part in ("exchange", "source", "destination") else value
