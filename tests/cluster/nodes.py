"""Real nodes on loopback: processes of `leveret` with nats-servers of their own, and clients for them."""

import base64
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika

READY_S = 60.0
# In which what is waited for must have happened.
PATIENCE_S = 120.0
LOOK_S = 0.02
AUTHORIZATION = "Basic " + base64.b64encode(b"guest:guest").decode()


def until(condition: Callable[[], bool], what: str = "what is waited for", patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} does not happen"
        time.sleep(LOOK_S)


# Below those that the system gives to clients: a node's ports must be free also while it is down.
PORTS = range(10_000, 30_000)
given: set[int] = set()


def own_port() -> int:
    """A port that nobody else has, or gets."""
    while True:
        port = random.choice(PORTS)
        if port in given:
            continue
        given.add(port)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def environment() -> dict[str, str]:
    """Ours, without the settings that tests of single brokers have there."""
    return {key: value for key, value in os.environ.items() if not key.startswith("LEVERET_") or key == "LEVERET_PURE"}


class Node:
    """One node: its folder and its ports stay, its process comes and goes."""

    def __init__(self, folder: Path, name: str, cluster: str = "tests", secret: str = "hush") -> None:
        self.folder = folder
        self.name = name
        self.cluster = cluster
        self.amqp_port, self.http_port, self.link_port, self.engine_port = (own_port() for _ in range(4))
        self.joins: list[str] = []
        self.more: dict[str, object] = {}
        folder.mkdir(parents=True)
        self.secret_file = folder / "secret"
        self.secret_file.write_text(secret)
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.link_port}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def begin(self) -> None:
        """Start the process; `wait` returns when it is ready."""
        config = {
            "port": self.amqp_port,
            "management_port": self.http_port,
            "prometheus_port": 0,
            "data_dir": str(self.folder / "data"),
            **self.more,
        }
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in config.items())
        text += f"[cluster]\nname = {json.dumps(self.cluster)}\nnode = {json.dumps(self.name)}\n"
        text += f"join = {json.dumps(self.joins)}\nsecret_file = {json.dumps(str(self.secret_file))}\n"
        text += f"port = {self.link_port}\nengine_port = {self.engine_port}\n"
        (self.folder / "leveret.toml").write_text(text)
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "leveret", "--config", str(self.folder / "leveret.toml")],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
            )

    def wait(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready"), f"{self.name} does not start: {self.log}"

    def returncode(self) -> int:
        """How it has ended by itself."""
        assert self._process is not None
        return self._process.wait(READY_S)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut does for a process; its nats-server is told by the kernel."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(READY_S)
            assert process.stdout is not None
            process.stdout.close()

    def freeze(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # Clients

    def connect(self, **more: Any) -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.amqp_port, **more))

    @contextlib.contextmanager
    def channel(self) -> Iterator[Any]:
        connection = self.connect()
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()

    def http(self, method: str, path: str, body: object = None) -> Any:
        """What the API answers; HTTPError if that is no."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}/api{path}", data, method=method)
        request.add_header("Authorization", AUTHORIZATION)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=READY_S) as answer:
            found = answer.read()
            return json.loads(found) if found else None

    def get(self, path: str) -> Any:
        return self.http("GET", path)

    def names(self, kind: str) -> list[str]:
        """Which queues, exchanges … there are."""
        return sorted(one["name"] for one in self.get(f"/{kind}"))

    def digest(self) -> str:
        """What is the same on all nodes that have the same defined."""
        return str(self.get("/cluster")["digest"])


@contextlib.contextmanager
def nodes(folder: Path, count: int = 3, **more: Any) -> Iterator[list[Node]]:
    """As many nodes, which are a cluster when this returns."""
    found = [Node(folder / f"n{number}", f"n{number}", **more) for number in range(1, count + 1)]
    for node in found:
        node.joins = [one.address for one in found]
    try:
        for node in found:
            node.begin()
        for node in found:
            node.wait()
        yield found
    finally:
        for node in found:
            if node.is_running:
                node.thaw()
            node.kill()


def all_agree(found: list[Node]) -> bool:
    return len({node.digest() for node in found}) == 1
