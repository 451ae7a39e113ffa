"""`leveret tls self-signed`, and what a broker with TLS says when it starts, or why it does not."""

import shutil
import signal
import ssl
import stat
from pathlib import Path

import pytest
from tests.cli.test_main import leveret
from tests.management.support import Http
from tests.server.support import Process, eventually
from tests.server.tls_support import TlsClient, Trust

FILES = ["ca.pem", "client.key", "client.pem", "server.key", "server.pem"]


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return Trust(tmp_path_factory.mktemp("trust"))


# leveret tls self-signed


def test_files_that_are_made_are_their_owners(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "tls"
    done = leveret("tls", "self-signed", str(folder), "--days", "1")
    made = "ca.pem, server.pem, server.key, client.pem, client.key"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"made {made} in {folder}, valid for 1 day\n", "")
    assert sorted(file.name for file in folder.iterdir()) == FILES
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_what_is_made_fits_together(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """The broker takes it without a warning, and both ends accept each other."""
    folder = tmp_path / "tls"
    assert leveret("tls", "self-signed", str(folder), "--client", "Müller", "--name", "localhost").returncode == 0
    names = {"certificate": "server.pem", "key": "server.key", "ca": "ca.pem"}
    files = {f"LEVERET_TLS_{name.upper()}": str(folder / file) for name, file in names.items()}
    ports = {f"LEVERET_TLS_{name}": "0" for name in ("PORT", "MANAGEMENT_PORT", "PROMETHEUS_PORT")}
    with Process(tmp_path, environment={**files, **ports, "LEVERET_TLS_CLIENTS": "required"}) as broker:
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        context.load_cert_chain(folder / "client.pem", folder / "client.key")
        context.minimum_version = context.maximum_version = version
        with TlsClient(broker.port_of("amqps"), context) as client:
            client.login()
            (one,) = Http(broker.http_port).get("/api/connections")
            assert one["peer_cert_subject"] == "CN=M\\C3\\BCller"
        assert "WARNING" not in broker.log


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "client.key").write_text("mine")
    done = leveret("tls", "self-signed", str(tmp_path))
    assert (done.returncode, done.stderr) == (1, f"leveret: {tmp_path / 'client.key'} exists already\n")
    assert [file.name for file in tmp_path.iterdir()] == ["client.key"]


def test_without_openssl(tmp_path: Path) -> None:
    done = leveret("tls", "self-signed", str(tmp_path / "tls"), PATH="/nowhere")
    said = "leveret: the program openssl is needed to make certificates, and is not installed\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert not (tmp_path / "tls").exists()


@pytest.mark.parametrize("name", ["", "a\nb", "$ENV::HOME", "a,DNS:b,\\"])
def test_name_that_is_none(tmp_path: Path, name: str) -> None:
    done = leveret("tls", "self-signed", str(tmp_path / "tls"), "--client", name)
    assert done.returncode == 1
    assert done.stderr.startswith("leveret: a certificate cannot be made for the name ")
    assert list((tmp_path / "tls").iterdir()) == []


# Starting


def test_ready_names_the_listeners_with_tls(trust: Trust, tmp_path: Path) -> None:
    with Process(tmp_path, environment=trust.environment()) as broker:
        assert list(broker.listeners) == ["amqp", "amqps", "http", "prometheus", "https", "https/prometheus"]
        assert "started TLS listener on 127.0.0.1" in broker.log


def test_without_management_there_is_amqp_alone(trust: Trust, tmp_path: Path) -> None:
    with Process(tmp_path, environment=trust.environment(management=False)) as broker:
        assert list(broker.listeners) == ["amqp", "amqps", "http", "prometheus"]


def test_nothing_without_tls(trust: Trust, tmp_path: Path) -> None:
    with Process(tmp_path, environment=trust.environment(only=True)) as broker:
        assert list(broker.listeners) == ["amqps", "https", "https/prometheus"]
        with TlsClient(broker.port_of("amqps"), trust.context()) as client:
            client.login()


def test_each_thing_that_is_wrong_has_its_line(trust: Trust, tmp_path: Path) -> None:
    environment = trust.environment(certificate="/no/c", ca="", clients="required")
    done = leveret("--data-dir", str(tmp_path / "data"), **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == ['leveret: bad setting tls.ca: it is not set, and tls.clients = "required" needs it']
    done = leveret("--data-dir", str(tmp_path / "data"), **trust.environment(certificate="/no/c", key="/no/k"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "leveret: bad setting tls.certificate: cannot read /no/c: No such file or directory",
        "leveret: bad setting tls.key: cannot read /no/k: No such file or directory",
    ]
    assert not (tmp_path / "data").exists()


def test_expired_certificate_is_warned_of(trust: Trust, tmp_path: Path) -> None:
    old = trust.authority.issue("old", days=-1)
    environment = trust.environment(certificate=str(old.certificate), key=str(old.key))
    with Process(tmp_path, environment=environment) as broker:
        assert f"tls.certificate: {old.certificate} has expired: it was valid until" in broker.log


# SIGHUP


def test_sighup_reads_certificates_again(trust: Trust, tmp_path: Path) -> None:
    """SPEC §9.6: other files, too; a bad one is said, and the one in use stays."""
    file = tmp_path / "leveret.toml"

    def write(certificate: Path, key: Path, more: str = "") -> None:
        ports = "".join(f"{name} = 0\n" for name in ("port", "management_port", "prometheus_port"))
        file.write_text(f'[tls]\n{ports}certificate = "{certificate}"\nkey = "{key}"\n{more}')

    def shown(broker: Process) -> bytes | None:
        with TlsClient(broker.port_of("amqps"), trust.context()) as client:
            assert isinstance(client.socket, ssl.SSLSocket)
            return client.socket.getpeercert(binary_form=True)

    write(*trust.server)
    with Process(tmp_path, "--config", str(file)) as broker:
        first = shown(broker)
        write(*trust.authority.issue("second"), more="handshakes = 7\n")
        broker.popen.send_signal(signal.SIGHUP)
        eventually(lambda: "SIGHUP: tls.handshakes takes effect at the next start" in broker.log)
        assert "the certificates are read again" in broker.log
        second = shown(broker)
        assert second != first
        write(trust.server.certificate, Path("/no/key"))
        broker.popen.send_signal(signal.SIGHUP)
        said = "bad setting tls.key: cannot read /no/key: No such file or directory; the certificates in use stay"
        eventually(lambda: said in broker.log)
        assert shown(broker) == second


def test_files_that_change_are_read_again(trust: Trust, tmp_path: Path) -> None:
    """Without being told."""
    own = [tmp_path / "own.pem", tmp_path / "own.key"]
    for source, target in zip(trust.server, own, strict=True):
        shutil.copy(source, target)
    with Process(tmp_path, environment=trust.environment(certificate=str(own[0]), key=str(own[1]))) as broker:
        for source, target in zip(trust.authority.issue("third"), own, strict=True):
            shutil.copy(source, target)
        eventually(lambda: "the certificates are read again" in broker.log)
