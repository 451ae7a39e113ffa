"""leveretctl under RabbitMQ's names, its checks, and completion in bash."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.management.support import Running

Run = Callable[..., subprocess.CompletedProcess[str]]

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("tools")) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with RabbitMQ's names in it."""
    made = tmp_path_factory.mktemp("bin")
    done = subprocess.run([BIN / "leveretctl", "-q", "install-aliases", made], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        str(made / name) for name in ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-queues")
    ]
    return made


@pytest.fixture
def diagnostics(broker: Running, folder: Path) -> Run:
    def run(*arguments: str, data: Path = broker.folder / "data") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "LEVERET_DATA_DIR": str(data)}
        command = [str(folder / "rabbitmq-diagnostics"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)

    return run


def test_names_are_only_made_where_nothing_else_is(folder: Path, tmp_path: Path) -> None:
    """SPEC §9.7: rabbitmqctl and rabbitmq-diagnostics, where asked for."""
    assert subprocess.run([BIN / "leveretctl", "install-aliases", folder], check=False, capture_output=True).returncode == 0
    (tmp_path / "rabbitmqctl").write_text("another's")
    refused = subprocess.run([BIN / "leveretctl", "install-aliases", tmp_path], check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stderr) == (65, f"Error:\n{tmp_path}/rabbitmqctl is there already, and no link\n")
    assert (tmp_path / "rabbitmqctl").read_text() == "another's"
    helped = subprocess.run([folder / "rabbitmqctl", "help"], check=True, capture_output=True, text=True).stdout
    assert helped.startswith("Usage: rabbitmqctl ")
    assert not (BIN / "rabbitmqctl").exists()


def test_checks_say_and_exit_as_rabbitmqs(diagnostics: Run, broker: Running, tmp_path: Path) -> None:
    """SPEC §9.7: for probes."""
    node = broker.http().get("/api/overview")["node"]
    assert diagnostics("-q", "ping").stdout == "Ping succeeded\n"
    assert diagnostics("-q", "check_running").stdout == f"RabbitMQ on node {node} is fully booted and running\n"
    assert diagnostics("check_running").stdout.startswith(f"Checking if RabbitMQ is running on node {node} ...\n")
    assert diagnostics("-q", "check_local_alarms").stdout == f"Node {node} reported no local alarms\n"
    assert diagnostics("-q", "alarms").stdout == f"Node {node} reported no alarms, local or clusterwide\n"
    assert json.loads(diagnostics("check_alarms", "--formatter", "json").stdout) == {"result": "ok"}
    silent = diagnostics("-s", "check_virtual_hosts")
    assert (silent.returncode, silent.stdout) == (0, "")
    port = str(broker.port)
    assert (
        diagnostics("-q", "check_port_listener", port).stdout == f"A listener for port {port} is running on node {node}.\n"
    )
    absent = diagnostics("-q", "check_port_listener", "1")
    assert (absent.returncode, absent.stdout) == (69, "")
    assert (
        f"No listener for port 1 is active on node {node}. Found listeners that use the following ports: " in absent.stderr
    )
    assert diagnostics("-q", "check_protocol_listener", "amqp").returncode == 0
    assert diagnostics("-q", "check_protocol_listener", "mqtt").returncode == 69
    assert diagnostics("check_port_connectivity", "-q").stdout.startswith("Successfully connected to ports ")
    assert diagnostics("-q", "listeners").stdout.splitlines()[0] == (
        f"Interface: 127.0.0.1, port: {port}, protocol: amqp, purpose: AMQP 0-9-1"
    )
    nobody = diagnostics("-q", "ping", data=tmp_path)
    assert (nobody.returncode, nobody.stdout) == (69, "")


def test_checks_fail_while_an_alarm_is_set(diagnostics: Run, broker: Running) -> None:
    """SPEC §9.7: 69, naming it."""
    node = broker.http().get("/api/overview")["node"]
    assert diagnostics("set_disk_free_limit", "1000TB").returncode == 0
    try:
        for _ in range(100):
            found = diagnostics("-q", "check_local_alarms")
            if found.returncode:
                break
        assert (found.returncode, found.stderr) == (69, f"Error:\nFree disk space alarm on node {node}\n")
        quiet = diagnostics("-s", "check_alarms")
        assert (quiet.returncode, quiet.stdout, quiet.stderr) == (69, "", "")
        told = diagnostics("check_alarms", "--formatter", "json")
        assert (told.returncode, json.loads(told.stdout)["result"]) == (69, "error")
        assert diagnostics("-q", "alarms").stdout == f"Free disk space alarm on node {node}\n"
    finally:
        assert diagnostics("set_disk_free_limit", "50MB").returncode == 0


def test_memory_cluster_and_logins(diagnostics: Run, broker: Running) -> None:
    """SPEC §9.5: memory_breakdown, cluster_status, status, list_node_auth_attempt_stats."""
    found = json.loads(diagnostics("memory_breakdown", "--formatter", "json").stdout)
    assert found["code"]["bytes"] > 0
    assert abs(sum(one["percentage"] for one in found.values()) - 100) < 1
    first = diagnostics("-q", "memory_breakdown", "--unit", "mb").stdout.splitlines()[0]
    name, amount, unit, share = first.split()
    assert (name.rstrip(":") in found, float(amount) > 0, unit, share.endswith("%)")) == (True, True, "mb", True)
    assert diagnostics("memory_breakdown", "--unit", "stones").returncode == 64
    cluster = json.loads(diagnostics("cluster_status", "--formatter", "json").stdout)
    assert cluster["running_nodes"] == cluster["disk_nodes"] == [broker.http().get("/api/overview")["node"]]
    assert "Network Partitions\n\n(none)" in diagnostics("cluster_status").stdout
    assert "code: " in diagnostics("status", "--unit", "mb").stdout
    assert diagnostics("-q", "server_version").stdout == "3.13.7\n"
    assert diagnostics("enable_auth_attempt_source_tracking").returncode == 0
    broker.http().get("/api/whoami")
    rows = diagnostics("-q", "list_node_auth_attempt_stats", "--by-source").stdout.splitlines()
    assert rows[0].split("\t")[:3] == ["remote_address", "username", "protocol"]
    assert rows[1].split("\t")[:3] == ["127.0.0.1", "guest", "http"]
    assert diagnostics("disable_auth_attempt_source_tracking").returncode == 0
    assert diagnostics("reset_node_auth_attempt_metrics").returncode == 0
    assert "reported no authentication attempt stats" in diagnostics("list_node_auth_attempt_stats").stdout


def test_connectivity_is_tried(diagnostics: Run) -> None:
    with socket.create_server(("127.0.0.2", 0)):
        failed = diagnostics("-q", "check_port_connectivity", "--address", "127.0.0.2")
    assert failed.returncode == 69
    assert "failed: \nInterface: 127.0.0.1, port: " in failed.stderr


@pytest.mark.parametrize(
    ("tool", "line", "expected"),
    [
        ("leveretctl", "leveretctl list_qu", ["list_queues"]),
        ("leveretctl", "leveretctl -p orders add_v", ["add_vhost"]),
        ("leveretctl", "leveretctl list_queues --form", ["--formatter"]),
        ("rabbitmqctl", "rabbitmqctl check_virt", ["check_virtual_hosts"]),
        ("leveret", "leveret store ba", ["backup"]),
        ("leveret", "leveret def", ["definitions"]),
    ],
)
def test_bash_completes(folder: Path, tool: str, line: str, expected: list[str]) -> None:
    """SPEC §9.5: as the README says, in a real bash."""
    variable = f"_{tool.upper()}_COMPLETE"
    words = line.split()
    script = f"""
        eval "$({variable}=bash_source {tool})"
        COMP_WORDS=({" ".join(words)})
        COMP_CWORD={len(words) - 1}
        _{tool}_completion {tool}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = {**os.environ, "PATH": f"{folder}:{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")
