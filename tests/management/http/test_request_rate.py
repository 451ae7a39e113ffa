"""How often an address may ask."""

import socket
from pathlib import Path

import pytest
from tests.management.support import Running
from tests.server.support import PATIENCE

from leveret.management.http import request_rate
from leveret.management.http.request_rate import RequestRates


def test_so_many_in_a_second() -> None:
    rates = RequestRates(2)
    assert [rates.take("a", 0) for _ in range(3)] == [True, True, False]
    assert rates.take("b", 0)
    assert not rates.take("a", 499)
    assert rates.take("a", 1000)


def test_the_least_is_one() -> None:
    rates = RequestRates(1)
    assert [rates.take("a", now) for now in (0, 999, 1000)] == [True, False, True]


def test_without_a_limit() -> None:
    rates = RequestRates(0)
    assert all(rates.take("a", 0) for _ in range(1000))


def test_not_more_addresses_are_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_rate, "REMEMBERED_MAX", 2)
    rates = RequestRates(1)
    for address in "abcd":
        rates.take(address, 0)
    assert len(rates._taken) == 2


def test_limits_of_requests(tmp_path: Path) -> None:
    """Body, head and number, over a socket; what is refused is said."""
    settings = {"LEVERET_MANAGEMENT_BODY_MAX": "100", "LEVERET_MANAGEMENT_HEAD_MAX": "1000"}
    with Running(tmp_path, environment=settings) as broker:
        http = broker.http()
        fits = b'{"value": "' + b"x" * 87 + b'"}'
        assert len(fits) == 100
        assert http.ask("PUT", "/api/global-parameters/p", fits).status == 201
        answer = http.ask("PUT", "/api/global-parameters/p", fits + b" ")
        assert (answer.status, answer.json["reason"]) == (413, "the body is larger than 100 bytes")
        assert http.ask("GET", "/api/whoami", headers={"X-Long": "x" * 900}).status == 200
        assert http.ask("GET", "/api/whoami", headers={"X-Long": "x" * 2000}).status == 400
        effective = http.ask("GET", "/api/config/effective").body.decode().splitlines()
        assert {"management_body_max = 100", "connection_max = 0", "login_failures = 0"} <= set(effective)


def test_too_many_requests_are_refused(tmp_path: Path) -> None:
    slow = "import leveret.management.server as s; s.now_ms = lambda: 0; from leveret.cli.main import main; main()"
    settings = {"LEVERET_MANAGEMENT_REQUESTS_PER_SECOND": "2"}
    with Running(tmp_path, environment=settings, program=("-c", slow)) as broker:
        answers = [broker.http().ask("GET", "/api/whoami") for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 429]
        assert answers[2].headers["Retry-After"] == "1"


def test_head_that_does_not_end_is_cut_off(tmp_path: Path) -> None:
    """Many short fields, each of which is allowed; a head just within the limit is answered."""
    with Running(tmp_path, environment={"LEVERET_MANAGEMENT_HEAD_MAX": "1000"}) as broker:
        for size, status in ((990, b"HTTP/1.1 401"), (1010, b"HTTP/1.1 431")):
            start = b"GET /api/whoami HTTP/1.1\r\nHost: a\r\n"
            head = start + b"X-A: b\r\n" * 100
            head += b"X-B: " + b"b" * (size - len(head) - 7) + b"\r\n"
            assert len(head) == size
            with socket.create_connection(("127.0.0.1", broker.http_port), timeout=PATIENCE) as client:
                client.sendall(head)
                if status.endswith(b"401"):
                    client.sendall(b"\r\n")
                assert client.recv(4096).startswith(status)
