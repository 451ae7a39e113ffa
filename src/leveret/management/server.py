"""aiohttp in the broker's loop: requests come in, are let through or refused, and are answered by the routes."""

import asyncio
import inspect
import logging
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from errno import EMFILE
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from aiohttp import web

from leveret.broker.access import User
from leveret.errors import AMQPError
from leveret.management import metrics
from leveret.management.answers import Answer, InPieces, Refused, Streamed, from_fault
from leveret.management.api import ROUTES
from leveret.management.asking import Ask
from leveret.management.login import REALM, LocalUser, login
from leveret.management.pieces import Pause
from leveret.management.routes import NOBODY_ASKED, Route
from leveret.management.statistics import Statistics
from leveret.server.listeners import close_listeners

if TYPE_CHECKING:
    from leveret.server.node import Node

# As RabbitMQ's; definitions may be larger.
BODY_MAX = 20 << 20
STOP_S = 1.0
STREAMS_MAX = 100
BACKLOG = 128

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
        self._statistics = Statistics(node)
        self._runners: list[web.AppRunner] = []
        self._servers: list[asyncio.Server] = []
        self._streams: set[asyncio.Task[object] | None] = set()
        self._socket: Path | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; where that is. OSError if it cannot be."""
        self._statistics.start()
        return await self._listen(host, port, [*ROUTES, *metrics.ROUTES])

    async def start_metrics(self, host: str, port: int) -> tuple[str, int]:
        """Listen for those who only want metrics."""
        return await self._listen(host, port, metrics.ROUTES)

    async def _listen(self, host: str, port: int, routes: list[Route]) -> tuple[str, int]:
        runner = await self._runner(routes, None)
        assert runner.server is not None
        loop = asyncio.get_running_loop()
        try:
            # Not aiohttp's TCPSite: that would not say what is to be closed.
            server = await loop.create_server(runner.server, host, port, backlog=BACKLOG, reuse_address=True)
        except BaseException:
            await self.stop()
            raise
        self._servers.append(server)
        if not server.sockets:
            raise OSError(EMFILE, "no descriptor is left to listen with")
        found_host, found_port = server.sockets[0].getsockname()[:2]
        return found_host, found_port

    async def open_socket(self, path: Path) -> None:
        """Listen on a UNIX socket too, where no password is asked for: only its owner may open it."""
        self._socket = path
        runner = await self._runner(ROUTES, LocalUser())
        mask = os.umask(0o177)
        try:
            path.unlink(missing_ok=True)
            await web.UnixSite(runner, str(path)).start()
        except OSError as error:
            # Such as a path that is too long for a socket.
            log.warning("no socket for leveretctl at %s: %s", path, error)
        finally:
            os.umask(mask)

    async def _runner(self, routes: list[Route], local: User | None) -> web.AppRunner:
        app = web.Application(client_max_size=BODY_MAX)
        for route in routes:
            for path in patterns_of(route.path):
                app.router.add_route(route.method, path, self._handler(route, local))
                if route.method == "GET":
                    app.router.add_route("HEAD", path, self._handler(route, local))
        app.middlewares.append(self._faults)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=self._patience_s, handle_signals=False)
        await runner.setup()
        self._runners.append(runner)
        return runner

    async def stop(self) -> None:
        self._statistics.close()
        await close_listeners(self._servers)
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
            if isinstance(answer, InPieces):
                return await send_pieces(request, answer)
            return await self._stream(request, answer) if isinstance(answer, Streamed) else respond(answer)

        return handle

    async def _answer(self, route: Route, request: web.Request, local: User | None) -> Answer:
        path = parts_of(route.path, request.rel_url.raw_path)
        ask = Ask(self._node, None, path, request.query)  # type: ignore[arg-type]
        ask.statistics = self._statistics
        ask.headers = request.headers
        ask.peer = request.remote or ""
        if route.level != NOBODY_ASKED:
            ask.user = local or login(self._node.broker, request, route.level, path.get("vhost"))
        if request.can_read_body:
            ask.body_octets = await request.read()
        result = route.handler(ask)
        if inspect.isawaitable(result):
            result = await result
        return result if isinstance(result, Answer) else Answer(result)

    async def _stream(self, request: web.Request, answer: Streamed) -> web.StreamResponse:
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
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return refusal(Refused(500, "Internal Server Error"))


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


async def send_pieces(request: web.Request, answer: InPieces) -> web.StreamResponse:
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
