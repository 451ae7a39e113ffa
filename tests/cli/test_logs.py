"""The log is lines of text, whatever clients put into it."""

import io
import logging
import re
from pathlib import Path

import pytest
from tests.management.support import Http
from tests.properties.dialogue import PROTOCOL_HEADER, handshake, method
from tests.server.support import Process

from leveret.cli.logs import OneLine, visible
from leveret.wire import spec
from leveret.wire.values import Table

NASTY = "\x1b[2Jgone\x07\x9b31m\u2028line\u202eright\r\n2026-01-01 00:00:00,000 INFO leveret.server forged"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ü, 日本", "plain, ü, 日本"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\r\n\tb", "a\\r\\n\\tb"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("\u2028\u202e", "\\u2028\\u202e"),
        ("non-breaking\u00a0space", "non-breaking\u00a0space"),
    ],
)
def test_what_cannot_be_seen_is_escaped(text: str, shown: str) -> None:
    """SPEC §9.6: a terminal does not obey a client's name."""
    assert visible(text) == shown


def test_traceback_has_no_line_that_passes_for_a_record() -> None:
    """SPEC §9.6: what an exception says may come from a client, too."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(OneLine("%(asctime)s %(message)s"))
    log = logging.Logger("tried")
    log.addHandler(handler)
    try:
        raise ValueError(NASTY)
    except ValueError:
        log.exception("%s failed", NASTY)
    lines = stream.getvalue().split("\n")
    assert not CONTROL.search(stream.getvalue())
    assert all(line.startswith(" ") for line in lines[1:-1])
    assert lines[1] == " Traceback (most recent call last):"


def test_nothing_of_a_client_ends_a_line_or_moves_the_cursor(tmp_path: Path) -> None:
    """SPEC §9.6: names of users, vhosts, queues and connections; client properties; paths and headers of requests."""
    with Process(tmp_path, "--log-level", "debug") as broker:
        with broker.connect() as client:
            client.socket.sendall(PROTOCOL_HEADER)
            client.send(handshake(response=f"\0{NASTY}\0guest".encode())[0])
            client.expect(spec.ConnectionStart)
            client.expect(spec.ConnectionClose)
        with broker.connect() as client:
            client.socket.sendall(PROTOCOL_HEADER)
            client.expect(spec.ConnectionStart)
            properties: Table = {"product": NASTY, "connection_name": NASTY}
            response = b"\0guest\0guest"
            client.send(method(0, spec.ConnectionStartOk(properties, "PLAIN", response, "en_US")))
            client.expect(spec.ConnectionTune)
            client.send(method(0, spec.ConnectionTuneOk(2047, 131_072, 0)), method(0, spec.ConnectionOpen(NASTY)))
            client.expect(spec.ConnectionClose)
        with broker.login() as client:
            client.send(method(1, spec.QueueDeclare(NASTY, passive=True)))
            client.expect(spec.ChannelClose)
        http = Http(broker.http_port)
        assert http.ask("GET", f"/api/queues/%2F/{http.quoted(NASTY)}").status == 404
        assert http.ask("GET", "/api/overview", headers={"Authorization": "Basic \x1b", "X-Reason": "\x1b"}).status < 500
    text = broker.log
    assert not CONTROL.search(text), text
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ leveret", line) for line in text.splitlines())
    assert "\\x1b[2Jgone\\x07" in text
