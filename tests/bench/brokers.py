"""Start and stop the brokers that a bench measures.

(1) Each broker has a temporary folder, a free port on loopback and a process group of its own.
(2) What was started is stopped by its process group when the `with` block ends, however it ends; `stop_on_sigterm`
    makes a plain kill end it like Ctrl-C.
(3) A broker that does not come up raises BrokerFailed with the end of its log.

brokers.py rabbitmq|leveret|plain    runs one until Ctrl-C and prints the `name=port:pid` that compare.py takes
  --plugins NAME…                     RabbitMQ's plugins to enable, for the interop tests
"""

import argparse
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.client import BrokerClosed, connect
from tests.certificates import Authority
from tests.debian import RABBITMQ_SERVER, need

START_SECONDS = 90.0
STOP_SECONDS = 15.0
# Enough for 5,000 connections; Erlang sizes tables by the limit, so it is not simply the highest allowed.
OPEN_FILES = 65536
TLS_SETTINGS = """
listeners.ssl.1 = 127.0.0.1:{}
ssl_options.cacertfile = {}
ssl_options.certfile = {}
ssl_options.keyfile = {}
ssl_options.verify = verify_none
ssl_options.fail_if_no_peer_cert = false
"""


class BrokerFailed(Exception):
    """A broker did not come up."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker; `pid` is the process whose CPU time and memory are its own; without TLS, `tls_port` is 0."""

    name: str
    port: int
    pid: int
    tls_port: int = 0


def raise_open_files() -> int:
    """Let this process and those it starts open many files; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return OPEN_FILES if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def stop_on_sigterm() -> None:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that `with` blocks stop what they started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def leveret(
    plain: bool = False, folder: Path | None = None, program: Path | None = None, name: str = ""
) -> Iterator[Broker]:
    """Run Leveret, compiled if it was built so, or as plain Python; in `folder` what it keeps stays.

    `program` is the command of another install, which is to have a name of its own.
    """
    environment = {name: value for name, value in os.environ.items() if name != "LEVERET_PURE"}
    environment |= {"LEVERET_MANAGEMENT_PORT": "0", "LEVERET_PROMETHEUS_PORT": "0"}
    if plain:
        environment["LEVERET_PURE"] = "1"
    with _scratch("leveret") if folder is None else nullcontext(folder) as place:
        log = place / "log"
        server = Authority(place).issue("server")
        environment |= {"LEVERET_TLS_CERTIFICATE": str(server.certificate), "LEVERET_TLS_KEY": str(server.key)}
        environment |= {"LEVERET_TLS_PORT": "0", "LEVERET_TLS_MANAGEMENT": "false"}
        started = [str(program)] if program else [sys.executable, "-m", "leveret"]
        command = [*started, "--port", "0", "--data-dir", str(place / "data")]
        with _running(command, environment, log) as process:
            port = _wait_for(lambda: _announced_port(log), process, log)
            # Another install may be from before there was TLS.
            tls_port = _announced_port(log, "amqps") or 0
            yield Broker(name or ("plain" if plain else "leveret"), port, process.pid, tls_port)


@contextmanager
def rabbitmq(
    plugins: Sequence[str] = (), folder: Path | None = None, ports: Sequence[int] = (), settings: str = ""
) -> Iterator[Broker]:
    """Run Debian's RabbitMQ with its own settings and these, apart from where it listens and keeps its files.

    To find its files again in `folder` it needs the same `ports` (three, from `free_ports`): its name has one in it.
    """
    need(RABBITMQ_SERVER)
    port, dist_port, epmd_port = ports or free_ports(3)
    with _scratch("rabbitmq") if folder is None else nullcontext(folder) as place:
        environment = _rabbitmq_environment(place, port, dist_port, epmd_port)
        tls_port, authority = free_ports(1)[0], Authority(place)
        server = authority.issue("server")
        (place / "rabbitmq.conf").write_text(settings + TLS_SETTINGS.format(tls_port, authority.certificate, *server))
        (place / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")
        # Without an epmd of ours Erlang would leave a daemon behind.
        with (
            _running(["epmd", "-port", str(epmd_port), "-address", "127.0.0.1"], environment, place / "epmd.log"),
            _running([str(RABBITMQ_SERVER)], environment, place / "log") as process,
        ):
            pid = _wait_for(lambda: _beam_pid(place, port), process, place / "log")
            yield Broker("rabbitmq", port, pid, tls_port)


KINDS: dict[str, Callable[[], AbstractContextManager[Broker]]] = {
    "leveret": leveret,
    "plain": lambda: leveret(plain=True),
    "rabbitmq": rabbitmq,
}


def _rabbitmq_environment(folder: Path, port: int, dist_port: int, epmd_port: int) -> dict[str, str]:
    """Return an environment in which nothing of this machine's own RabbitMQ is read or written."""
    for name in ("rabbitmq-env.conf", "rabbitmq.conf"):
        (folder / name).write_text("")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
    # Started under systemd, the server would report to it rather than run under its own little shell.
    own.pop("NOTIFY_SOCKET", None)
    return own | {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"bench-{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(dist_port),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }


@contextmanager
def _scratch(name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=f"leveret-bench-{name}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def _running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a process group of its own, and stop the whole group at the end."""
    raise_open_files()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _stop_group(process)


def _stop_group(process: subprocess.Popen[bytes]) -> None:
    """Ask the group to end, wait, and end by force what is left of it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_for(found: Callable[[], int | None], process: subprocess.Popen[bytes], log: Path) -> int:
    """Poll `found` until it returns a number, while the process lives."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        number = found()
        if number is not None:
            return number
        time.sleep(0.05)
    state = "did not come up" if process.poll() is None else f"ended with status {process.returncode}"
    raise BrokerFailed(f"{process.args!r} {state}:\n{log.read_text(errors='replace')[-2000:]}")


def _announced_port(log: Path, listener: str = "amqp") -> int | None:
    """Find Leveret's `ready amqp=127.0.0.1:40123 …` and return the port of a listener in it."""
    for line in log.read_text(errors="replace").splitlines(keepends=True):
        if line.startswith("ready ") and line.endswith("\n"):
            for word in line.split():
                if word.startswith(f"{listener}="):
                    return int(word.rpartition(":")[2])
    return None


def _beam_pid(folder: Path, port: int) -> int | None:
    """Return the pid of RabbitMQ's Erlang machine once its port lets a client in."""
    try:
        connect(port).sock.close()
    except (OSError, BrokerClosed):
        return None
    pid = int((folder / "pid").read_text())
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    if not name.startswith("beam"):
        raise BrokerFailed(f"RabbitMQ says that it is process {pid}, which is {name}")
    return pid


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def main() -> None:
    parser = argparse.ArgumentParser(description="Run one broker as the benches do, until Ctrl-C.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--plugins", nargs="*", default=[], help="plugins of RabbitMQ's to enable")
    options = parser.parse_args()
    stop_on_sigterm()
    started = rabbitmq(options.plugins) if options.plugins else KINDS[options.kind]()
    with suppress(KeyboardInterrupt), started as broker:
        print(f"{broker.name}={broker.port}:{broker.pid}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
