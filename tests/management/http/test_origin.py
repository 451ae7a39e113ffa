"""Which pages may ask, by rule and by request."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlencode

import pytest
from multidict import CIMultiDict
from tests.management.support import Http, Response, Running

from leveret.management.http.answer import Refused
from leveret.management.http.origin import PAGE_HEADER, add_security, check_origin, is_own

ELSEWHERE = "https://evil.example"
OPS = "https://ops.example"


@pytest.mark.parametrize(
    ("origin", "own"),
    [
        ("http://mq.example:15672", True),
        ("https://MQ.example:15672", True),
        ("http://mq.example", False),
        ("http://mq.example:15672.evil.example", False),
        ("ftp://mq.example:15672", False),
        ("null", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_own_origin(origin: str, own: bool) -> None:
    assert is_own(origin, "mq.example:15672") is own
    assert not is_own(origin, "")


@pytest.mark.parametrize(
    ("method", "headers", "by_cookie", "allowed", "passes"),
    [
        ("GET", {"Origin": ELSEWHERE}, True, (), True),
        ("POST", {}, False, (), True),
        ("POST", {}, True, (), False),
        ("POST", {PAGE_HEADER: "1"}, True, (), True),
        ("POST", {PAGE_HEADER: "1", "Origin": ELSEWHERE}, True, (), False),
        ("PUT", {"Origin": "http://mq"}, True, (), True),
        ("PUT", {"Origin": "null"}, False, (), False),
        ("DELETE", {"Origin": ELSEWHERE}, False, (), False),
        ("DELETE", {"Origin": OPS}, False, (OPS,), True),
        ("DELETE", {"Origin": OPS}, True, (OPS,), False),
        ("DELETE", {"Origin": ELSEWHERE}, False, ("*",), True),
    ],
)
def test_who_may_change_something(
    method: str, headers: dict[str, str], by_cookie: bool, allowed: tuple[str, ...], passes: bool
) -> None:
    refused = nullcontext() if passes else pytest.raises(Refused)
    with refused:
        check_origin(method, {"Host": "mq", **headers}, by_cookie, allowed)


@pytest.fixture(scope="module")
def open_to_ops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = Path(tmp_path_factory.mktemp("cors"))
    (folder / "leveret.toml").write_text(f'management_cors_origins = "{OPS}"')
    with Running(folder, "--config", str(folder / "leveret.toml")) as running:
        yield running


def cookie_of(broker: Running) -> dict[str, str]:
    form = urlencode({"username": "guest", "password": "guest"}).encode()
    answer = broker.http(None).ask("POST", "/api/login", form)
    return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}


def test_cookie_changes_something_only_for_the_own_page(broker: Running) -> None:
    """SPEC §9.4: another site's page has the cookie sent along, and changes nothing by that."""
    nobody, cookie = broker.http(None), cookie_of(broker)
    own = {"Origin": f"http://127.0.0.1:{broker.http_port}"}
    assert nobody.ask("GET", "/api/whoami", headers=cookie).status == 200
    assert nobody.ask("PUT", "/api/vhosts/cookie", {}, cookie).status == 401
    assert nobody.ask("PUT", "/api/vhosts/cookie", {}, cookie | {"Origin": ELSEWHERE}).status == 401
    assert nobody.ask("PUT", "/api/vhosts/cookie", {}, cookie | own).status == 201
    assert nobody.ask("DELETE", "/api/vhosts/cookie", headers=cookie | own).status == 204


def test_cookie_is_for_the_browser_alone(broker: Running) -> None:
    form = urlencode({"username": "guest", "password": "guest"}).encode()
    cookie = broker.http(None).ask("POST", "/api/login", form).headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=28800"} <= set(cookie.split("; "))
    assert "guest" not in cookie


def test_page_elsewhere_logs_nobody_in(broker: Running) -> None:
    form = urlencode({"username": "guest", "password": "guest"}).encode()
    assert broker.http(None).ask("POST", "/api/login", form, {"Origin": ELSEWHERE}).status == 401


def cors_of(answer: Response) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items() if name.lower().startswith("access-control-")}


def test_no_page_elsewhere_reads_anything(broker: Running, http: Http) -> None:
    """CORS is off unless it is set."""
    for method in ("GET", "OPTIONS"):
        assert cors_of(http.ask(method, "/api/overview", headers={"Origin": ELSEWHERE})) == {}


def test_allowed_page_reads_with_a_login_of_its_own(open_to_ops: Running) -> None:
    http = open_to_ops.http()
    assert cors_of(http.ask("GET", "/api/overview", headers={"Origin": OPS})) == {"access-control-allow-origin": OPS}
    assert cors_of(http.ask("GET", "/api/overview", headers={"Origin": ELSEWHERE})) == {}
    asked_first = cors_of(open_to_ops.http(None).ask("OPTIONS", "/api/vhosts/v", headers={"Origin": OPS}))
    assert asked_first["access-control-allow-origin"] == OPS
    assert "PUT" in asked_first["access-control-allow-methods"]
    assert "authorization" in asked_first["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in asked_first


@pytest.mark.parametrize("path", ["/", "/api/overview", "/api/nothing", "/metrics", "/api/whoami"])
@pytest.mark.parametrize("user", ["guest", None])
def test_every_answer_tells_browsers_what_not_to_do(broker: Running, path: str, user: str | None) -> None:
    headers = broker.http(user).ask("GET", path).headers
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Strict-Transport-Security" not in headers


@pytest.mark.parametrize(
    ("secure", "host", "seconds", "said"),
    [
        (True, "mq.example:15671", 60, "max-age=60"),
        (True, "127.0.0.1:15671", 60, "max-age=60"),
        (True, "localhost:15671", 60, None),
        (True, "mq.example", 0, None),
        (False, "mq.example", 60, None),
    ],
)
def test_browsers_are_told_to_come_with_tls(secure: bool, host: str, seconds: int, said: str | None) -> None:
    """Over TLS only, as what is said without it may be somebody else's; never to localhost, where others are without."""
    headers: CIMultiDict[str] = CIMultiDict()
    add_security(headers, secure, host, seconds)
    assert headers.get("Strict-Transport-Security") == said
