"""What the page is told of its user, and what its cookie is good for."""

from urllib.parse import urlencode

import pytest
from tests.management.support import Http, Running

PAGE = {"X-Leveret-Page": "1"}


@pytest.fixture
def cookie(limited: Running) -> dict[str, str]:
    """The cookie of `some`, who may do little."""
    form = urlencode({"username": "some", "password": "some"}).encode()
    answer = limited.http(None).ask("POST", "/api/login", form)
    return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}


def test_session_says_what_the_user_may_do(limited: Running) -> None:
    """SPEC §9.4: what a user may not do is not offered."""
    some = limited.http("some", "some").get("/api/session")
    assert (some["name"], some["tags"], some["vhosts"]) == ("some", ["management"], ["/"])
    assert [(one["vhost"], one["configure"], one["read"]) for one in some["permissions"]] == [("/", "^mine", "^readable")]
    assert limited.http().get("/api/session")["vhosts"] == ["/", "other"]


def test_cookie_alone_only_looks(limited: Running, cookie: dict[str, str]) -> None:
    """SPEC §9.4: another site, whose requests have the cookie but not the page's header, changes nothing."""
    nobody = limited.http(None)
    assert nobody.ask("GET", "/api/session", headers=cookie).json["name"] == "some"
    assert nobody.ask("PUT", "/api/queues/%2F/mine.session", {}, cookie).status == 401
    assert nobody.ask("PUT", "/api/queues/%2F/mine.session", {}, cookie | PAGE).status == 201
    assert nobody.ask("DELETE", "/api/queues/%2F/mine.session", headers=cookie | PAGE).status == 204


def test_the_page_asks_for_the_password_itself(limited: Running) -> None:
    """SPEC §9.4: a browser that is told of Basic authentication would ask in a window of its own."""
    nobody: Http = limited.http(None)
    assert nobody.ask("GET", "/api/session").headers["WWW-Authenticate"].startswith("Basic ")
    assert "WWW-Authenticate" not in nobody.ask("GET", "/api/session", headers=PAGE).headers


def test_logging_out_takes_the_cookie_back(limited: Running) -> None:
    answer = limited.http(None).ask("DELETE", "/api/login", headers=PAGE)
    assert (answer.status, answer.headers["Set-Cookie"]) == (204, "m=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
