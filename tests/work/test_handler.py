"""What handles a message: functions, coroutines, commands and URLs, each with a real broker, process or server."""

import asyncio
import http.server
import itertools
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pika
import pytest
from tests.server.support import eventually
from tests.work.support import Calls, Door, Log, Place, Working, at_once, fresh, one

from leveret.work import Message, Subscription
from leveret.work.handler import HandlerFailed
from leveret.work.http_post import HttpPost
from leveret.work.run_once import Outcome, run_once

BIG = os.urandom(1 << 20)


def command(*words: str, body: bytes = b"", time_limit_ms: int = 10_000, **properties: Any) -> Outcome:
    one = Subscription(name="s", consumer_id="me", handler=list(words), handler_time_limit=time_limit_ms)
    return run_once(one, body, routing_key="k", exchange="x", **properties)


def python(code: str, **options: Any) -> Outcome:
    return command(sys.executable, "-c", code, **options)


def failure(outcome: Outcome) -> str:
    assert outcome.outcome == "failed"
    assert isinstance(outcome.error, HandlerFailed), outcome.error
    return str(outcome.error)


def is_alive(pid: int) -> bool:
    """A zombie is not: it only waits for somebody to look at it."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


# Commands


def test_command_gets_the_body_and_what_there_is_to_know(tmp_path: Path) -> None:
    """SPEC §10: no shell, body on stdin, exit 0 is success."""
    target = tmp_path / "it; echo $HOME"
    code = f"""if True:
        import os, sys
        open({str(target)!r}, "wb").write(sys.stdin.buffer.read())
        known = {{name: value for name, value in os.environ.items() if name.startswith("LEVERET_")}}
        open({str(target)!r} + ".env", "w").write(repr(sorted(known.items())))
    """
    found = python(code, body=BIG, message_id="m", content_type="a/b", reply_to="r", correlation_id="c", type="t")
    assert (found.outcome, found.settled) == ("handled", "acked")
    assert target.read_bytes() == BIG
    known = (tmp_path / "it; echo $HOME.env").read_text()
    for name, value in {
        "EXCHANGE": "x",
        "ROUTING_KEY": "k",
        "CONSUMER_ID": "me",
        "MESSAGE_ID": "m",
        "CONTENT_TYPE": "a/b",
        "REPLY_TO": "r",
        "CORRELATION_ID": "c",
        "TYPE": "t",
    }.items():
        assert repr((f"LEVERET_{name}", value)) in known


def test_command_that_fails_says_why() -> None:
    found = python("import sys; sys.stderr.write('no paper'); sys.exit(3)")
    assert failure(found) == f"{sys.executable} ended with 3: no paper"
    assert failure(python("import os; os.kill(os.getpid(), 9)")) == f"{sys.executable} ended with -9"


def test_command_that_does_not_read_is_none_the_worse() -> None:
    assert command("true", body=BIG).outcome == "handled"
    assert python("import sys, time; sys.stdin.close(); time.sleep(0.1)", body=BIG).outcome == "handled"


def test_command_that_says_much_fills_nothing() -> None:
    """Of some 100 MB the end is kept."""
    code = "import sys\nfor n in range(100): sys.stderr.write('x' * 1000000)\nsys.stderr.write('the end'); sys.exit(1)"
    said = failure(python(code))
    assert said.endswith("xxthe end")
    assert len(said) < 1100


def test_command_that_is_not_there() -> None:
    found = command("/no/such/command")
    assert (found.outcome, type(found.error)) == ("failed", FileNotFoundError)


def test_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    """SPEC §10: time limit. Also what the command has started, and what no longer has a parent."""
    script = "sleep 6000 & echo $! > pids; (sleep 6001 & echo $! >> pids); echo waiting >&2; sleep 6002"
    found = command("sh", "-c", f"cd {tmp_path}; {script}", time_limit_ms=500)
    assert failure(found) == "sh took more than 0.5 s: waiting"
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    eventually(lambda: not any(map(is_alive, pids)))


def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    """It holds the command's stderr open, which is no reason to wait for it."""
    assert command("sh", "-c", f"sleep 6000 & echo $! > {tmp_path}/pid").outcome == "handled"
    eventually(lambda: not is_alive(int((tmp_path / "pid").read_text())))


def test_many_commands_leave_no_descriptors() -> None:
    command("true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        command("true", body=b"x")
    assert len(os.listdir("/proc/self/fd")) == before


# URLs


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers as its path says: /status/204, /drip, /silent, /cut, /moved."""

    requests: ClassVar[list[tuple[str, dict[str, str], bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append((self.path, dict(self.headers.items()), body))
        _, what, *more = self.path.partition("?")[0].split("/")
        if what == "status":
            self.send_response(int(more[0]))
            self.send_header("Location", "/status/200")
            self.end_headers()
            self.wfile.write(b"this is why" + b"." * 100_000)
        elif what == "drip":
            # Each piece comes in time, the whole never does.
            for letter in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000:
                self.wfile.write(bytes([letter]))
                time.sleep(0.05)
        elif what == "silent":
            time.sleep(3)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody asked."""


@contextmanager
def server(context: ssl.SSLContext | None = None) -> Iterator[int]:
    found = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    found.handle_error = lambda *_: None  # type: ignore[method-assign]
    if context is not None:
        found.socket = context.wrap_socket(found.socket, server_side=True)
    thread = threading.Thread(target=found.serve_forever, args=(0.02,))
    thread.start()
    Answering.requests.clear()
    try:
        yield found.server_address[1]
    finally:
        found.shutdown()
        found.server_close()
        thread.join()


def post(url: str, body: bytes = b"", time_limit_ms: int = 5000, **properties: Any) -> Outcome:
    one = Subscription(name="s", consumer_id="me", handler=url, handler_time_limit=time_limit_ms)
    return run_once(one, body, routing_key="k", exchange="x", **properties)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with server() as found:
        yield found


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_answers_of_2xx_are_success(port: int, status: int) -> None:
    """SPEC §10."""
    assert post(f"http://127.0.0.1:{port}/status/{status}").outcome == "handled"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 400, 404, 500, 503])
def test_other_answers_are_failures_and_are_not_followed(port: int, status: int) -> None:
    Answering.requests.clear()
    said = failure(post(f"http://127.0.0.1:{port}/status/{status}"))
    assert said.startswith(f"http://127.0.0.1:{port}/status/{status} answered {status}: this is why...")
    assert len(said) < 1200
    assert len(Answering.requests) == 1


def test_what_is_posted(port: int) -> None:
    Answering.requests.clear()
    properties: Any = {"content_type": "application/json", "content_encoding": "gzip", "message_id": "m\r\nX-Evil: 1é"}
    assert post(f"http://127.0.0.1:{port}/status/200?a=b", BIG, **properties).outcome == "handled"
    ((path, headers, body),) = Answering.requests
    assert (path, body) == ("/status/200?a=b", BIG)
    assert headers["Content-Type"] == "application/json"
    assert headers["Content-Encoding"] == "gzip"
    assert headers["X-Leveret-Routing-Key"] == "k"
    assert headers["X-Leveret-Exchange"] == "x"
    assert headers["X-Leveret-Message-Id"] == "m??X-Evil: 1?"
    assert "X-Evil" not in headers
    assert "Authorization" not in headers


def test_login_in_a_url_is_sent_and_never_shown(port: int) -> None:
    Answering.requests.clear()
    said = failure(post(f"http://me:s%40cret@127.0.0.1:{port}/status/500?token=s%40cret"))
    assert Answering.requests[0][1]["Authorization"] == "Basic bWU6c0BjcmV0"
    assert "cret" not in said


@pytest.mark.parametrize("path", ["drip", "silent"])
def test_time_limit_is_for_the_whole_exchange(port: int, path: str) -> None:
    started = time.monotonic()
    said = failure(post(f"http://127.0.0.1:{port}/{path}", time_limit_ms=400))
    assert said == f"http://127.0.0.1:{port}/{path} took more than 0.4 s"
    assert time.monotonic() - started >= 0.4


def test_server_that_hangs_up_or_is_not_there(port: int) -> None:
    assert f"http://127.0.0.1:{port}/cut: " in failure(post(f"http://127.0.0.1:{port}/cut"))
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed = unused.getsockname()[1]
    assert "Connection refused" in failure(post(f"http://127.0.0.1:{closed}/"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = Path(tmp_path_factory.mktemp("tls"))
    key, own = folder / "key.pem", folder / "own.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(own)]
    subprocess.run([*words, *names], check=True, capture_output=True)
    return own, key


def test_https(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that nobody knows is a failure; one that is known is not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with server(context) as port:
        assert "CERTIFICATE_VERIFY_FAILED" in failure(post(f"https://127.0.0.1:{port}/status/200"))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert post(f"https://127.0.0.1:{port}/status/200", BIG).outcome == "handled"
        assert Answering.requests[-1][2] == BIG
        assert failure(post(f"https://127.0.0.1:{port}/drip", time_limit_ms=400)).endswith("took more than 0.4 s")


def test_https_where_there_is_none(port: int) -> None:
    assert f"https://127.0.0.1:{port}/: " in failure(post(f"https://127.0.0.1:{port}/"))


def test_handshake_that_never_ends_is_in_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        assert failure(post(url, time_limit_ms=300)) == f"{url} took more than 0.3 s"


def test_name_that_is_never_found_is_in_the_time_limit(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """SPEC §10: and however many messages wait for it, it is looked up once at a time."""
    found, look, asked = threading.Event(), socket.getaddrinfo, []

    def slow(host: str, *more: Any, **options: Any) -> Any:
        asked.append(host)
        assert found.wait(20)
        return look("127.0.0.1", *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    url = f"http://slow.example:{port}/status/200"
    sending = HttpPost(url)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            sending.send(b"", {}, 0.05)
    assert asked == ["slow.example"]
    assert failure(post(url, time_limit_ms=50)) == f"{url} took more than 0.05 s"
    found.set()
    assert sending.send(b"", {}, 10)[0] == 200


def test_name_that_is_not_known_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """SPEC §10: all of its addresses are tried."""
    look = socket.getaddrinfo
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed = unused.getsockname()[1]
    answers = [socket.gaierror(-2, "Name or service not known"), None]

    def looked(host: str, number: int, *more: Any, **options: Any) -> Any:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return [*look("127.0.0.1", closed, *more, **options), *look("127.0.0.1", number, *more, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", looked)
    sending = HttpPost(f"http://some.example:{port}/status/200")
    with pytest.raises(OSError, match="not known"):
        sending.send(b"", {}, 10)
    assert [sending.send(b"", {}, 10)[0] for _ in range(2)] == [200, 200]
    assert answers == []


# Functions, with a broker


def test_functions_run_in_the_workers_own_thread_in_order(place: Place) -> None:
    threads = set()
    calls = Calls(lambda message: threads.add(threading.current_thread().name))
    exchange, queue = one(calls)
    with Working(place.url, exchange) as working:
        place.publish(exchange.name, "k", *[str(n).encode() for n in range(200)])
        calls.wait(200)
        eventually(lambda: working.runtime.counters.handled == 200)
    assert calls.bodies == [str(n).encode() for n in range(200)]
    assert threads == {f"leveret-work {queue}/1"}
    assert place.ready(queue) == 0


def test_coroutines_run_at_once_as_the_prefetch_allows(place: Place) -> None:
    most, now, free = [0], [0], threading.Event()

    async def handle(message: Message) -> None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        while not free.is_set():
            await asyncio.sleep(0.01)
        now[0] -= 1

    exchange, queue = one(handle, prefetch_count=7)
    with Working(place.url, exchange) as working:
        place.publish(exchange.name, "k", *[b""] * 30)
        eventually(lambda: now[0] == 7)
        assert working.runtime.in_flight == 7
        free.set()
        eventually(lambda: working.runtime.counters.handled == 30)
        eventually(lambda: working.runtime.in_flight == 0)
    assert most[0] == 7
    assert place.ready(queue) == 0


def test_function_that_returns_a_coroutine_is_waited_for(place: Place) -> None:
    done = []

    async def later(message: Message) -> None:
        await asyncio.sleep(0.01)
        done.append(message.body)

    def plain(message: Message) -> Any:
        return later(message)

    exchange, _ = one(plain)
    with Working(place.url, exchange):
        place.publish(exchange.name, "k", b"a", b"b")
        eventually(lambda: done == [b"a", b"b"])


@pytest.mark.parametrize("kind", ["function", "coroutine"])
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_whatever_is_raised_is_logged_and_the_worker_goes_on(place: Place, kind: str, error: BaseException) -> None:
    """SPEC §10: logged with the message's id, never stops the worker."""
    seen: list[bytes] = []

    def plain(message: Message) -> None:
        seen.append(message.body)
        if message.body == b"bad":
            raise error

    async def coroutine(message: Message) -> None:
        plain(message)

    exchange, queue = one(plain if kind == "function" else coroutine)
    with Log() as log, Working(place.url, exchange) as working:
        place.publish(exchange.name, "k", b"bad", message_id="m-17")
        place.publish(exchange.name, "k", b"good")
        eventually(lambda: seen == [b"bad", b"good"])
        eventually(lambda: working.runtime.counters.handled == 1)
        assert working.runtime.counters.failed == 1
        eventually(lambda: working.runtime.in_flight == 0)
        assert log.says(f"s: message m-17 failed | {type(error).__name__}")
    assert place.ready(queue) == 0


def test_handler_that_settles_itself(place: Place) -> None:
    dead = fresh("dead")
    place.declare(dead)

    def handle(message: Message) -> None:
        if message.body == b"ack":
            message.ack()
            raise ValueError("after the fact")
        if message.body == b"again" and not message.redelivered:
            message.reject(requeue=True)
        if message.body == b"dead":
            message.reject()

    calls = Calls(handle)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    exchange, queue = one(calls, acknowledge_policy="OnlyOnSuccessHandling", queue={"Arguments": arguments})
    with Working(place.url, exchange) as working:
        place.publish(exchange.name, "k", b"ack", b"again", b"dead")
        calls.wait(4)
        eventually(lambda: working.runtime.counters.handled == 1)
        assert working.runtime.counters.refused == 2
        assert working.runtime.counters.unacknowledged == 0
    assert place.ready(queue) == 0
    assert [body for _, _, body in place.take(dead)] == [b"dead"]


def test_answers_reach_the_sender(place: Place) -> None:
    """Also by direct reply-to, which is a queue of no name."""
    exchange, _ = one(lambda message: message.reply({"got": message.content}, headers={"h": 1}), receipt="OnSuccess")
    with Working(place.url, exchange), place.channel() as channel:
        answers = channel.consume("amq.rabbitmq.reply-to", auto_ack=True, inactivity_timeout=60)

        # Only who listens may say so.
        def ask() -> None:
            facts = pika.BasicProperties(
                reply_to="amq.rabbitmq.reply-to", correlation_id="c", content_type="application/json"
            )
            channel.basic_publish(exchange.name, "k", b"[1]", facts)

        channel.connection.call_later(0.01, ask)
        _, properties, body = next(answers)
        assert (body, properties.correlation_id, properties.headers) == (b'{"got":[1]}', "c", {"h": 1})
        _, properties, body = next(answers)
        assert (body, properties.type, properties.headers) == (b"", "leveret.receipt", {"outcome": "handled"})


@pytest.mark.parametrize(("receipt", "told"), [("Never", []), ("OnSuccess", ["handled"]), ("Always", ["failed", "handled"])])
def test_receipts(place: Place, receipt: str, told: list[str]) -> None:
    """SPEC §10: no reply-to, no receipt."""

    def handle(message: Message) -> None:
        if message.body == b"bad":
            raise ValueError("it is bad")

    answers = fresh("answers")
    place.declare(answers)
    exchange, _ = one(handle, receipt=receipt, consumer_id="me")
    with Working(place.url, exchange) as working:
        place.publish(exchange.name, "k", b"bad", b"good", reply_to=answers, correlation_id="c")
        place.publish(exchange.name, "k", b"bad", b"good")
        eventually(lambda: working.runtime.counters.handled == 2)
        assert working.runtime.counters.receipts == len(told)
    found = place.take(answers)
    assert [properties.headers["outcome"] for _, properties, _ in found] == told
    assert all(
        (one.type, one.correlation_id, one.headers["ConsumerId"]) == ("leveret.receipt", "c", "me") for _, one, _ in found
    )
    if "failed" in told:
        assert found[0][1].headers["error"] == "ValueError: it is bad"


def test_handler_that_takes_longer_than_heartbeats(place: Place) -> None:
    """The connection lives; the broker would end it after two heartbeats without a word."""
    calls = Calls(lambda message: time.sleep(3))
    exchange, queue = one(calls)
    with Working(f"{place.url}?heartbeat=1", exchange) as working:
        place.publish(exchange.name, "k", b"")
        eventually(lambda: working.runtime.counters.handled == 1)
        assert working.runtime.counters.disconnects == 0
    assert place.ready(queue) == 0
    assert len(calls.messages) == 1


# Refusing


def test_reject_policy_that_is_a_function(place: Place) -> None:
    """SPEC §10: asked first; pauses of 100 ms, doubling."""
    asked: list[float] = []

    def policy(message: Message) -> bool:
        asked.append(time.monotonic())
        return len(asked) <= 3

    calls = Calls()
    exchange, queue = one(calls, reject_policy=policy, acknowledge_policy="AlwaysBeforeHandling")
    with Working(place.url, exchange) as working:
        place.publish(exchange.name, "k", b"a")
        calls.wait(1)
        assert (working.runtime.counters.refused, working.runtime.counters.received) == (3, 4)
    pauses = [second - first for first, second in itertools.pairwise(asked)]
    assert all(pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True)), pauses
    assert calls.messages[0].redelivered
    assert place.ready(queue) == 0


def test_coroutines_pause_too(place: Place) -> None:
    asked: list[float] = []

    def policy(message: Message) -> bool:
        asked.append(time.monotonic())
        return len(asked) <= 2

    done = []

    async def handle(message: Message) -> None:
        done.append(message.body)

    exchange, _ = one(handle, reject_policy=policy)
    with Working(place.url, exchange) as working:
        place.publish(exchange.name, "k", b"a", b"b")
        eventually(lambda: sorted(done) == [b"a", b"b"])
        assert working.runtime.counters.refused == 2
    assert asked[1] - asked[0] >= 0.1
    assert asked[2] - asked[1] >= 0.2


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(2)])
def test_reject_policy_that_raises_refuses_nothing(place: Place, error: BaseException) -> None:
    def policy(message: Message) -> bool:
        raise error

    calls = Calls()
    exchange, _ = one(calls, reject_policy=policy)
    with Log() as log, Working(place.url, exchange):
        place.publish(exchange.name, "k", b"a", message_id="m")
        calls.wait(1)
        assert log.says(f"s: the reject policy failed for message m | {type(error).__name__}")


def test_in_flight_bounds_all_workers_together_and_never_drifts(place: Place) -> None:
    """Also when messages fail, are refused, or lose their connection."""
    now, most, lock = [0], [0], threading.Lock()
    seen: set[bytes] = set()

    def enter(message: Message) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])

    def leave(message: Message) -> None:
        with lock:
            now[0] -= 1
            seen.add(message.body)
        if message.body.endswith((b"1", b"3")):
            raise ValueError

    def plain(message: Message) -> None:
        enter(message)
        time.sleep(0.002)
        leave(message)

    async def coroutine(message: Message) -> None:
        enter(message)
        await asyncio.sleep(0.002)
        leave(message)

    bound = {"WhenOverloaded": {"InFlight": 2}}
    exchanges = [one(handler, reject_policy=bound, worker_thread_count=2)[0] for handler in (plain, coroutine)]
    bodies = [[f"{word}{number}".encode() for number in range(20)] for word in ("plain", "coroutine")]
    with Door(place.port) as door, Working(f"amqp://127.0.0.1:{door.port}", *exchanges, wait=at_once) as working:
        for exchange, some in zip(exchanges, bodies, strict=True):
            place.publish(exchange.name, "k", *some)
        eventually(lambda: len(seen) >= 4)
        door.cut()
        eventually(lambda: seen == {body for some in bodies for body in some}, 60)
        assert working.runtime.counters.refused > 0
        assert working.runtime.counters.failed > 0
    eventually(lambda: working.runtime.in_flight == 0)
    assert most[0] <= 2
