"""A node listens, says where, and ends every connection in order when it stops."""

import asyncio
import socket
from pathlib import Path

import pytest
from tests.properties.dialogue import PROTOCOL_HEADER, method, publish
from tests.server.support import MIB, InProcess, Process

from leveret.server.config import Config
from leveret.server.endpoint import Endpoint
from leveret.server.node import Node
from leveret.wire import spec

SHUTDOWN = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"


def test_listeners_say_host_and_port(node: InProcess) -> None:
    (listener,) = node.node.listeners
    assert (listener.protocol, listener.host, listener.tls) == ("amqp", "127.0.0.1", False)
    assert listener.port > 0


def test_listeners_are_named_in_the_log(tmp_path: Path) -> None:
    """SPEC §9.6: each with what is spoken there, and how clients log in."""
    with Process(tmp_path) as broker:
        assert f"started TCP listener on 127.0.0.1:{broker.port} (amqp, login with a password)\n" in broker.log
        assert f"started TCP listener on 127.0.0.1:{broker.http_port} (http, login with a password)\n" in broker.log
        assert f"started TCP listener on 127.0.0.1:{broker.prometheus_port} (prometheus, no login)\n" in broker.log


def test_nothing_listens_before_the_start() -> None:
    assert Node(Config(port=0, storage="memory")).listeners == []


def test_endpoint_that_nobody_opens_is_an_error() -> None:
    node = Node(Config(port=0, storage="memory"))
    node.endpoints.append(Endpoint("mqtt", "127.0.0.1", 0))
    with pytest.raises(ValueError, match="nothing here speaks mqtt"):
        asyncio.run(node.start())
    assert node.listeners == []


def test_port_in_use_is_an_error(node: InProcess) -> None:
    with pytest.raises(OSError, match=r"(?i)address already in use"):
        asyncio.run(Node(Config(port=node.port, storage="memory")).start())


def test_stopping_closes_with_320() -> None:
    with InProcess() as node, node.login() as client, node.connect() as new:
        port = node.port
        new.socket.sendall(PROTOCOL_HEADER)
        new.expect(spec.ConnectionStart)
        stopping = asyncio.run_coroutine_threadsafe(node.node.stop(), node._loop)
        close = client.expect(spec.ConnectionClose)
        assert (close.reply_code, close.reply_text, close.class_id, close.method_id) == (320, SHUTDOWN, 0, 0)
        client.send(method(0, spec.ConnectionCloseOk()))
        assert client.at_end()
        assert new.at_end()
        stopping.result(2)
        assert node.node.transports == set()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_stopping_waits_for_nobody_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client does not answer, another does not even read."""
    monkeypatch.setattr("leveret.server.node.STOP_S", 0.3)
    with InProcess() as node, node.login() as mute, node.login(receive_buffer=65_536) as deaf:
        deaf.declare("q")
        deaf.publish_many("q", [bytes(MIB)] * 20)
        deaf.send(method(1, spec.BasicConsume("q", "t")), *publish(1, "q", b"x"))
        asyncio.run_coroutine_threadsafe(node.node.stop(), node._loop).result(3)
        assert node.node.transports == set()
        assert mute.expect(spec.ConnectionClose).reply_code == 320
        assert mute.at_end()
