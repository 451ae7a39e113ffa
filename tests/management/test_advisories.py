"""RabbitMQ's security advisories that concern the HTTP API and the web page, each tried on this broker.

Each docstring says what went wrong there, and what the defence is here.
"""

import socket
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from tests.management.support import Http, Running
from tests.server.support import PATIENCE

MARKUP = "<img src=x onerror=alert(1)>"


def exchanged(broker: Running, head: str, body: bytes, most: int) -> bytes:
    """Send a request by hand, a body as often as it takes; the answer's first line."""
    with socket.create_connection(("127.0.0.1", broker.http_port), timeout=PATIENCE) as client:
        client.sendall(head.encode())
        sent = 0
        try:
            while sent < most:
                client.sendall(body)
                sent += len(body)
        except OSError:
            pass
        return client.recv(4096).partition(b"\r\n")[0]


@pytest.mark.parametrize("chunked", [True, False])
def test_cve_2026_57212_and_cve_2023_46118_bodies_are_bounded(tmp_path: Path, chunked: bool) -> None:
    """Bodies were read whole, however large, chunked ones too. Here octets are counted while they come."""
    with Running(tmp_path, environment={"LEVERET_MANAGEMENT_BODY_MAX": "100000"}) as broker:
        login = f"Authorization: {broker.http().headers['Authorization']}\r\nHost: a\r\n"
        start = f"PUT /api/global-parameters/p HTTP/1.1\r\n{login}"
        if chunked:
            piece = b"2710\r\n" + b" " * 10_000 + b"\r\n"
            line = exchanged(broker, f"{start}Transfer-Encoding: chunked\r\n\r\n", piece, 1_000_000)
        else:
            line = exchanged(broker, f"{start}Content-Length: 1000000\r\n\r\n", b" " * 10_000, 1_000_000)
        assert line.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/api/queues/other/q/contents"),
        ("DELETE", "/api/queues/other/q"),
        ("GET", "/api/queues/other/q"),
        ("POST", "/api/queues/other/q/get"),
        ("PUT", "/api/policies/other/p"),
        ("GET", "/api/definitions"),
        ("DELETE", "/api/vhosts/other"),
    ],
)
def test_cve_2024_51988_66078_67233_66075_66069_routes_check_rights(limited: Running, method: str, path: str) -> None:
    """Single routes had no check. Here a level stands in each row of the table of routes, and is asked before the handler;
    tests/management/http/test_login.py tries every row with every kind of user. This one may not enter the vhost `other`.
    """
    limited.http().put("/api/queues/other/q")
    assert limited.http("some", "some").ask(method, path, {} if method != "GET" else None).status == 401
    assert limited.http().get("/api/queues/other/q")["name"] == "q"


def test_cve_2026_66074_patterns_run_in_linear_time(broker: Running, http: Http, vhost: str) -> None:
    """`?name=` with a pattern that backtracks froze the node. Here RE2 does it: this would not end in years otherwise."""
    name = "a" * 200
    assert http.put(f"/api/queues/{quote(vhost, safe='')}/{name}").status == 201
    query = urlencode({"page": "1", "use_regex": "true", "name": "^(a+)+$|(a|a)*b|(a*)*c"})
    assert name in str(http.get(f"/api/queues?{query}")["items"])
    query = urlencode({"page": "1", "use_regex": "true", "name": "^((a+)+)+x$"})
    assert http.get(f"/api/queues?{query}")["items"] == []


@pytest.mark.parametrize("path", [f"/api/queues/%2F/{quote(MARKUP)}", f"/api/{quote(MARKUP)}", f"/{quote(MARKUP)}"])
def test_cve_2015_0862_2017_4965_2021_32718_2025_30219_errors_are_no_pages(http: Http, path: str) -> None:
    """Names and errors were shown as markup. Here answers are JSON that browsers must take for nothing else; what the page
    shows of it is its own tests' matter.
    """
    answer = http.ask("GET", path)
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert MARKUP.encode() not in answer.body


def test_page_runs_nobody_elses_scripts(broker: Running) -> None:
    """The page's policy has no `unsafe-`, and lets no other page frame it."""
    answer = broker.http(None).ask("GET", "/")
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert "unsafe-" not in answer.headers.get("Content-Security-Policy", "")


def test_cve_2017_4966_2026_67236_cookies_hold_no_password(broker: Running) -> None:
    """The page kept the password in the browser. Here a cookie is a random number that no script can read."""
    form = urlencode({"username": "guest", "password": "guest"}).encode()
    cookies = {broker.http(None).ask("POST", "/api/login", form).headers["Set-Cookie"] for _ in range(2)}
    assert len(cookies) == 2
    for cookie in cookies:
        assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
        # Z3Vlc3Q is guest in base64.
        assert "guest" not in cookie
        assert "Z3Vlc3Q" not in cookie


def test_cve_2026_66070_origins_are_not_reflected(http: Http) -> None:
    """Any origin was allowed, with credentials. Here none is unless it is named, and never with the browser's."""
    for method in ("GET", "OPTIONS"):
        headers = http.ask(method, "/api/overview", headers={"Origin": "https://evil.example"}).headers
        assert not [name for name in headers if name.lower().startswith("access-control")]


def test_cve_2025_50200_66068_67406_no_secrets_in_the_log(tmp_path: Path) -> None:
    """Authorization headers and passwords were logged on some failures. Here nothing of either is, on any level."""
    word = "hidden-word"
    with Running(tmp_path, "--log-level", "debug") as broker:
        http = broker.http("guest", word)
        assert http.ask("GET", "/api/whoami").status == 401
        assert http.ask("GET", f"/api/{word * 0}nothing").status in (401, 404)
        encoded = http.headers["Authorization"].removeprefix("Basic ")
        broker.http(None).ask("GET", "/api/whoami", headers={"Authorization": f"Basic {encoded}%"})
        assert broker.http().ask("PUT", "/api/users/u", f'{{"password": "{word}", "tags": 5}}'.encode()).status == 400
        assert word not in broker.log
        assert encoded not in broker.log


def test_cve_2019_11287_reasons_are_no_formats(broker: Running, http: Http) -> None:
    """`X-Reason` was taken for a format string, and ended the node. Here texts of clients are arguments of a format only."""
    reason = "%s %n %(name)s {0.__class__} ~p~s" * 50
    assert http.ask("DELETE", "/api/connections/none", headers={"X-Reason": reason}).status == 404
    assert http.get("/api/whoami")["name"] == "guest"
