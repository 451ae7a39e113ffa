"""The command `leveret`: flags, the ready line, what is refused, and how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.properties.dialogue import PROTOCOL_HEADER, Frame, handshake, method
from tests.server.support import MIB, Process

from leveret import __version__
from leveret.wire import spec
from leveret.wire.spec import FRAME_METHOD

SHUTDOWN = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"


def leveret(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, which must come by itself."""
    command = [sys.executable, "-m", "leveret", *flags]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}, check=False
    )


def test_version() -> None:
    done = leveret("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"leveret {__version__}\n", "")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_every_flag(flag: str) -> None:
    done = leveret(flag)
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("config", "host", "port", "management-port", "data-dir", "log-level", "version", "help"):
        assert f"--{name}" in done.stdout


def test_ready_is_all_that_is_said_on_stdout(tmp_path: Path) -> None:
    with Process(tmp_path, "--log-level", "debug") as broker:
        assert broker.port > 0
        with broker.login() as client:
            client.declare("q")
        broker.popen.send_signal(signal.SIGTERM)
        out, _ = broker.popen.communicate(timeout=60)
        assert out == ""
    assert "user 'guest' granted access to vhost '/'" in broker.log


def test_ready_line_has_the_form_that_scripts_read(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "leveret", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        assert process.stdout.read() == ""
    assert re.fullmatch(r"ready amqp=127\.0\.0\.1:\d+ http=127\.0\.0\.1:\d+ prometheus=127\.0\.0\.1:\d+\n", line)
    assert process.returncode == 0


@pytest.mark.parametrize(("host", "shown"), [("::1", "[::1]"), ("127.0.0.2", "127.0.0.2")])
def test_host(host: str, shown: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "leveret", "--host", host, "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
    listeners = line.split()[1:]
    assert any(listener.startswith(f"amqp={shown}:") for listener in listeners), line


def test_chosen_port_is_listened_on(tmp_path: Path) -> None:
    port = free_port()
    with Process(tmp_path, "--port", str(port)) as broker:
        assert broker.port == port


def test_settings_come_from_file_variables_and_flags(tmp_path: Path) -> None:
    """Each names another heartbeat or frame_max; the broker proposes what wins."""
    file = tmp_path / "leveret.toml"
    file.write_text("heartbeat = 7\nframe_max = 5000\nchannel_max = 9\n")
    environment = {"LEVERET_FRAME_MAX": "6000", "LEVERET_PORT": "1"}
    with Process(tmp_path, "--config", str(file), environment=environment) as broker, broker.connect() as client:
        client.socket.sendall(PROTOCOL_HEADER)
        client.expect(spec.ConnectionStart)
        client.send(handshake()[0])
        assert client.expect(spec.ConnectionTune) == spec.ConnectionTune(9, 6000, 7)


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_log_level(level: str, tmp_path: Path) -> None:
    with Process(tmp_path, "--log-level", level) as broker, broker.login() as client:
        client.send(method(1, spec.BasicGet("none")))
        client.expect(spec.ChannelClose)
    levels = ("DEBUG", "INFO", "WARNING", "ERROR")
    logged = {line.split()[2] for line in broker.log.splitlines()}
    assert logged <= set(levels[levels.index(level.upper()) :])
    assert "ERROR" in logged


BAD = [
    (["--port", "99999"], {}, "port = '99999' in the command line"),
    (["--port", "x"], {}, "port = 'x' in the command line"),
    (["--management-port", "-1"], {}, "management_port = '-1' in the command line"),
    (["--log-level", "loud"], {}, "log_level = 'loud' in the command line"),
    ([], {"LEVERET_CHANNEL_MAX": "0"}, "channel_max = '0' in the environment"),
    ([], {"LEVERET_FRAME_MAX": "100"}, "frame_max = '100' in the environment"),
    ([], {"LEVERET_HEARTBEAT": "soon"}, "heartbeat = 'soon' in the environment"),
    ([], {"LEVERET_MAX_MESSAGE_SIZE": "0"}, "max_message_size = '0' in the environment"),
    ([], {"LEVERET_PREFETCH_SIZE": "no"}, "prefetch_size = 'no' in the environment"),
    ([], {"LEVERET_CONFIG": "/none.toml"}, "cannot read /none.toml"),
    (["--config", "/none.toml"], {}, "cannot read /none.toml"),
]


@pytest.mark.parametrize(("flags", "environment", "text"), BAD, ids=[text for _, _, text in BAD])
def test_bad_setting_stops_the_start(flags: list[str], environment: dict[str, str], text: str, tmp_path: Path) -> None:
    done = leveret("--data-dir", str(tmp_path / "data"), *flags, **{"LEVERET_PORT": "0", **environment})
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
    assert done.stderr.startswith("leveret: ")
    assert done.stderr.count("\n") == 1


def test_bad_setting_in_a_file_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text("prot = 5672\n")
    done = leveret("--config", str(file), "--port", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"bad setting prot = 5672 in {file}: " in done.stderr


@pytest.mark.parametrize("named_by", ["flag", "variable"])
@pytest.mark.parametrize(
    ("definition", "place", "rule"),
    [
        # SPEC §7: file, place and rule; status 2
        ("[[users]]\nname = 5\n", "users[0].name", "Expected `str`, got `int`"),
        ("[[permissions]]\nuser = 'nobody'\n", "permissions[0] (nobody)", "user 'nobody' not found"),
    ],
)
def test_bad_definition_stops_the_start(definition: str, place: str, rule: str, named_by: str, tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text(definition)
    flags = ["--config", str(file)] if named_by == "flag" else []
    environment = {"LEVERET_CONFIG": str(file)} if named_by == "variable" else {}
    done = leveret("--port", "0", "--data-dir", str(tmp_path / "data"), *flags, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"leveret: bad setting {place} in {file}: {rule}\n"


def test_unknown_flag_and_argument_are_refused() -> None:
    for word in ("--prot=1", "serve"):
        done = leveret(word)
        assert (done.returncode, done.stdout) == (2, "")
        assert word.split("=", maxsplit=1)[0] in done.stderr


def test_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = leveret("--port", str(port), "--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"leveret: cannot listen on 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.1"])
def test_host_that_is_not_ours_is_said_in_one_line(host: str, tmp_path: Path) -> None:
    done = leveret("--host", host, "--port", "0", "--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"leveret: cannot listen on {host}:0: ")
    assert "Success" not in done.stderr
    assert "Unknown error" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_closes_every_connection_and_ends(number: signal.Signals, tmp_path: Path) -> None:
    with Process(tmp_path) as broker, broker.login() as one, broker.login() as two, broker.connect() as new:
        broker.popen.send_signal(number)
        for client in (one, two):
            close = client.expect(spec.ConnectionClose)
            assert (close.reply_code, close.reply_text, close.class_id, close.method_id) == (320, SHUTDOWN, 0, 0)
            client.send(method(0, spec.ConnectionCloseOk()))
            assert client.at_end()
        assert new.at_end()
        assert broker.popen.wait(60) == 0


def test_signal_ends_it_though_a_client_does_not_answer(tmp_path: Path) -> None:
    """One client hears and says nothing, another does not even read what waits for it."""
    with Process(tmp_path) as broker, broker.login() as mute, broker.login(receive_buffer=65_536) as deaf:
        deaf.declare("q")
        deaf.publish_many("q", [bytes(MIB)] * 20)
        deaf.send(method(1, spec.BasicConsume("q", "t")))
        broker.popen.send_signal(signal.SIGTERM)
        assert mute.expect(spec.ConnectionClose).reply_code == 320
        assert broker.popen.wait(60) == 0


def test_second_signal_changes_nothing(tmp_path: Path) -> None:
    with Process(tmp_path) as broker, broker.login() as client:
        broker.popen.send_signal(signal.SIGTERM)
        client.expect(spec.ConnectionClose)
        broker.popen.send_signal(signal.SIGINT)
        client.send(method(0, spec.ConnectionCloseOk()))
        assert broker.popen.wait(60) == 0


def test_bad_input_is_logged_once(tmp_path: Path) -> None:
    """Each of these is one line in the log, whatever the client calls itself."""
    with Process(tmp_path, "--log-level", "warning") as broker:
        with broker.connect() as client:
            client.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            client.socket.recv(100)
        assert lines_of(broker) == 1
        with broker.login() as client:
            client.send(method(1, spec.QueueDeclare("name\nof two lines\r", passive=True)))
            client.expect(spec.ChannelClose)
            client.send(method(1, spec.BasicGet("ignored, the channel is closed")))
            assert client.silent(0.1)
        assert lines_of(broker) == 2
        with broker.login() as client:
            client.send(Frame(FRAME_METHOD, 1, b"rubbish", end=0), Frame(FRAME_METHOD, 1, b"more", end=0))
            client.expect(spec.ConnectionClose)
        assert lines_of(broker) == 3
        with broker.connect() as client:
            client.socket.sendall(PROTOCOL_HEADER)
            client.send(handshake(response=b"\0no\nbody\0guest")[0])
            client.expect(spec.ConnectionStart)
            client.expect(spec.ConnectionClose)
        assert lines_of(broker) == 4
        with broker.connect():
            pass
        with broker.login():
            pass
        with broker.login():
            assert lines_of(broker) == 4, "a client that just goes away has done nothing wrong"
        assert "vhost '/'" in broker.log


def lines_of(broker: Process) -> int:
    return len(broker.log.splitlines())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port
