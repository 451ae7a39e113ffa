"""The HTTP server, on aiohttp in the broker's loop: it listens, checks who may, calls routes, and answers faults."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from leveret.broker.access import User
from leveret.errors import AMQPError
from leveret.management.api import ROUTES
from leveret.management.api.nodes import node_view
from leveret.management.http.answer import Answer, LargeAnswer, Refused, StreamAnswer, from_fault
from leveret.management.http.client_timeout import ClientLimits, TimedClient, client_of
from leveret.management.http.json import as_json
from leveret.management.http.login import LocalUser, login
from leveret.management.http.origin import add_cors, add_security
from leveret.management.http.request import Request
from leveret.management.http.request_rate import RequestRates
from leveret.management.http.response import HEADERS, refusal, respond, send_pieces
from leveret.management.http.route import ANYONE, Route, parts_of, patterns_of
from leveret.management.http.static_file import PAGE_FOLDER, StaticFiles
from leveret.management.prometheus import endpoint as metrics
from leveret.management.statistics.sampler import Sampler
from leveret.server.clock import now_ms
from leveret.server.endpoint import HTTP, PROMETHEUS, CannotListen, Endpoint
from leveret.server.listener import CONTROL_SHARE, HTTP_SHARE, Factory, Listener, listen, listen_at

if TYPE_CHECKING:
    from leveret.server.node import Node

# aiohttp waits twice so long for a request that is being answered.
STOP_S = 0.2
STREAMS_MAX = 100
# What is neither the API's nor a metric; those say for themselves what they have not.
PAGE_PATHS = "/{path:(?!(?:api|metrics)(?:/|$)).*}"

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger("leveret.http")


class Management:
    """The HTTP listeners of one node: the API with the page, and metrics. When it stops, requests have some time to end."""

    def __init__(self, node: "Node", patience_s: float = STOP_S, page: Path = PAGE_FOLDER) -> None:
        self._node = node
        self._patience_s = patience_s
        self._sampler = Sampler(node)
        self._page = StaticFiles(page)
        self._runners: list[web.AppRunner] = []
        self._listeners: list[Listener] = []
        config = node.config
        self._rates = RequestRates(config.management_requests_per_second)
        self._limits = ClientLimits(
            config.management_request_timeout,
            config.management_idle_timeout,
            config.management_head_max,
            config.management_body_max,
        )
        self._clients: set[TimedClient] = set()
        self._streams: set[asyncio.Task[object] | None] = set()
        self._socket: Path | None = None
        self._prefix = config.management_path_prefix

    async def start(self, endpoints: Iterable[Endpoint]) -> None:
        """Listen where these say, and tell the node; or CannotListen."""
        self._sampler.start()
        if self._node.cluster is not None:
            self._node.cluster.describe = lambda: as_json(node_view(Request(self._node, self._sampler, None, {}, {})))
        apps: dict[str, Callable[[], web.Application]] = {
            HTTP: self._whole_app,
            PROMETHEUS: lambda: self._app(metrics.ROUTES),
        }
        for endpoint in endpoints:
            client = await self._client(apps[endpoint.protocol]())
            try:
                listener = await listen(endpoint.host, endpoint.port, self._node.factory(endpoint, client), HTTP_SHARE)
            except OSError as error:
                await self.stop()
                raise CannotListen(endpoint, error) from error
            except BaseException:
                await self.stop()
                raise
            self._listeners.append(listener)
            self._node.add_listener(endpoint.at(listener.address))

    def _whole_app(self) -> web.Application:
        """The API, the metrics and the page."""
        app = self._app([*ROUTES, *metrics.ROUTES])
        if self._prefix:
            self._serve_below(app)
        for method in ("GET", "HEAD"):
            app.router.add_route(method, PAGE_PATHS, self._get_page)
        return app

    async def open_socket(self, path: Path) -> None:
        """Listen on a UNIX socket too, where no password is asked for: only its owner may open it."""
        self._socket = path
        client = await self._client(self._app(ROUTES, LocalUser()))
        try:
            self._listeners.append(listen_at(path, client, CONTROL_SHARE))
        except OSError as error:
            # Such as a path that is too long for a socket.
            log.warning("no socket for leveretctl at %s: %s", path, error)

    def _app(self, routes: list[Route], local: User | None = None) -> web.Application:
        """These routes, for users who log in, or for `local`, who need not."""
        app = web.Application(client_max_size=self._node.config.management_body_max)
        for route in routes:
            for path in patterns_of(route.path):
                app.router.add_route(route.method, path, self._handler(route, local))
                if route.method == "GET":
                    app.router.add_route("HEAD", path, self._handler(route, local))
        app.on_response_prepare.append(self._add_headers)
        app.middlewares.append(self._respond)
        app.middlewares.append(self._faults)
        return app

    def _serve_below(self, app: web.Application) -> None:
        """All of it below the path prefix too, as behind a proxy that passes paths on as they are."""
        for route in [*ROUTES, *metrics.ROUTES]:
            for path in patterns_of(route.path):
                for method in ("GET", "HEAD") if route.method == "GET" else (route.method,):
                    app.router.add_route(method, self._prefix + path, self._handler(route, None))
        for method in ("GET", "HEAD"):
            app.router.add_route(method, self._prefix + PAGE_PATHS, self._get_page)

    async def _client(self, app: web.Application) -> Factory:
        """A factory of the protocols of clients."""
        head = self._node.config.management_head_max
        runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=self._patience_s,
            handle_signals=False,
            max_line_size=head,
            max_field_size=head,
        )
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
        path = parts_of(route.path, self._without_prefix(incoming.rel_url.raw_path))
        user = local
        if local is None and not self._rates.take(incoming.remote or "", now_ms()):
            raise Refused(429, "Too many requests, try again in 1 s", headers={"Retry-After": "1"})
        if user is None and route.level != ANYONE:
            user = await login(self._node, incoming, route.level, path.get("vhost"))
        peer = incoming.remote or ""
        request = Request(self._node, self._sampler, user, path, incoming.query, incoming.headers, peer, incoming.secure)
        if incoming.can_read_body:
            request.body_octets = await read_body(incoming)
        result = route.handler(request)
        if inspect.isawaitable(result):
            result = await result
        return result if isinstance(result, Answer) else Answer(result)

    async def _get_page(self, incoming: web.Request) -> web.StreamResponse:
        """A file of the page; below a prefix its own addresses, which are relative, need the slash at the end."""
        if self._prefix and incoming.rel_url.raw_path == self._prefix:
            return respond(Answer(None, 301, {"Location": f"{self._prefix}/"}))
        return respond(
            self._page.answer(self._without_prefix(incoming.rel_url.raw_path), incoming.headers.get("If-None-Match", ""))
        )

    def _without_prefix(self, raw_path: str) -> str:
        below = self._prefix and raw_path.startswith(f"{self._prefix}/")
        return raw_path.removeprefix(self._prefix) if below else raw_path

    async def _stream(self, request: web.Request, answer: StreamAnswer) -> web.StreamResponse:
        """Send an answer piece by piece, until the client is gone or the broker stops."""
        if len(self._streams) >= STREAMS_MAX:
            raise Refused(503, f"there are already {STREAMS_MAX} open streams")
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": answer.content_type})
        task = asyncio.current_task()
        self._streams.add(task)
        try:
            await response.prepare(request)
            if request.method != "HEAD":
                async for piece in answer.pieces:
                    await response.write(piece)
        except ConnectionError:
            log.debug("%s: the client has left", request.remote)
        finally:
            self._streams.discard(task)
        return response

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """What browsers are told with every answer."""
        config = self._node.config
        add_security(response.headers, request.secure, request.host, config.management_hsts)
        add_cors(response.headers, request.headers.get("Origin", ""), config.cors_origins)

    def _options(self, request: web.Request) -> web.Response:
        """What may be asked; a browser asks that for pages elsewhere."""
        methods = allowed_methods(request)
        response = web.Response(headers={"Allow": methods})
        add_cors(response.headers, request.headers.get("Origin", ""), self._node.config.cors_origins, methods)
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
                return self._options(request)
            return await handler(request)
        except Refused as refused:
            return refusal(refused, request)
        except AMQPError as error:
            return refusal(from_fault(error), request)
        except web.HTTPNotFound:
            return refusal(Refused(404, "Not Found", "Object Not Found"), request)
        except web.HTTPMethodNotAllowed as error:
            response = refusal(Refused(405, "Method Not Allowed", "Method Not Allowed"), request)
            response.headers["Allow"] = error.headers.get("Allow", "")
            return response
        except web.HTTPRequestEntityTooLarge:
            return refusal(Refused(413, f"the body is larger than {self._node.config.management_body_max} bytes"), request)
        except (asyncio.CancelledError, web.HTTPException):
            raise
        except web.RequestPayloadError as error:
            return refusal(Refused(400, f"the body cannot be read: {error}"), request)
        except ConnectionError:
            log.debug("%s: the client was gone before its request was complete", request.remote)
            return refusal(Refused(400, "the request is incomplete"), request)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return refusal(Refused(500, "Internal Server Error"), request)


async def read_body(request: web.Request) -> bytes:
    client = client_of(request.transport)
    if client is None:
        raise ConnectionResetError
    with client.reading():
        return await request.read()


def allowed_methods(request: web.Request) -> str:
    error = request.match_info.http_exception
    if isinstance(error, web.HTTPMethodNotAllowed):
        return ", ".join(sorted({*error.allowed_methods, "OPTIONS"}))
    return "OPTIONS"
