"""RabbitMQ's own command-line client, rabbitmqadmin, as its management plug-in brings it."""

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.management.support import Running, rabbitmqadmin
from tests.server.support import PATIENCE

ADMIN = rabbitmqadmin()


class Admin:
    """`rabbitmqadmin`, for one vhost or for all."""

    def __init__(self, broker: Running, vhost: str | None) -> None:
        options = ["--host", "127.0.0.1", "--port", str(broker.http_port)]
        options += [] if vhost is None else ["--vhost", vhost]
        self._command = [sys.executable, "-W", "ignore", str(ADMIN), *options, "--format", "raw_json"]

    def run(self, *words: str, status: int = 0) -> str:
        done = subprocess.run([*self._command, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == status, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def rows(self, *words: str) -> list[list[str]]:
        """What `list` shows."""
        return [list(row.values()) for row in json.loads(self.run("list", *words))]


@pytest.fixture
def admin(broker: Running, vhost: str) -> Admin:
    return Admin(broker, vhost)


def test_users_and_rights(admin: Admin, vhost: str) -> None:
    """SPEC §9.1: rabbitmqadmin"""
    assert admin.run("declare", "user", "name=ada", "password=secret", "tags=monitoring") == "user declared\n"
    assert ["ada", ["monitoring"]] in admin.rows("users", "name", "tags")
    assert admin.run("declare", "permission", f"vhost={vhost}", "user=ada", "configure=.*", "write=.*", "read=") == (
        "permission declared\n"
    )
    assert ["ada", vhost, ""] in admin.rows("permissions", "user", "vhost", "read")
    admin.run("delete", "permission", f"vhost={vhost}", "user=ada")
    admin.run("delete", "user", "name=ada")
    assert "ada" not in [name for (name,) in admin.rows("users", "name")]


def test_policies_parameters_and_limits(admin: Admin, vhost: str) -> None:
    """SPEC §9.1: rabbitmqadmin"""
    for kind in ("policy", "operator_policy"):
        words = ["name=p", "pattern=^q", 'definition={"max-length": 5}', "priority=2", "apply-to=queues"]
        admin.run("declare", kind, *words)
        listed = "policies" if kind == "policy" else "operator_policies"
        assert admin.rows(listed, "name", "priority") == [["p", 2]]
        admin.run("delete", kind, "name=p")
        assert admin.rows(listed, "name") == []
    here = f"amqp:///{quote(vhost, safe='')}"
    value = json.dumps({"src-uri": here, "src-queue": "a", "dest-uri": here, "dest-queue": "b"})
    admin.run("declare", "parameter", "component=shovel", "name=s", f"value={value}")
    assert ["shovel", "s"] in admin.rows("parameters", "component", "name")
    admin.run("delete", "parameter", "component=shovel", "name=s")
    admin.run("declare", "vhost_limit", f"vhost={vhost}", "name=max-queues", "value=5")
    assert [vhost, {"max-queues": 5}] in admin.rows("vhost_limits", "vhost", "value")
    admin.run("delete", "vhost_limit", f"vhost={vhost}", "name=max-queues")


def test_definitions_are_exported_and_imported(broker: Running, admin: Admin, tmp_path: Path) -> None:
    """SPEC §9.2: rabbitmqadmin, all definitions and those of one vhost"""
    for who, kind in ((Admin(broker, None), "vhosts"), (admin, "queues")):
        file = tmp_path / f"{kind}.json"
        assert who.run("export", str(file)).startswith("Exported definitions for 127.0.0.1")
        before = json.loads(file.read_text())
        assert before["rabbit_version"] == "3.13.7"
        assert who.run("import", str(file)).startswith("Uploaded definitions")
        who.run("export", str(file))
        assert json.loads(file.read_text())[kind] == before[kind]


def test_faults_are_told(admin: Admin) -> None:
    """SPEC §9.1: rabbitmqadmin reads the reason of a 400."""
    words = ["name=p", "pattern=^q", 'definition={"hare": 1}']
    assert "are not recognised policy settings" in admin.run("declare", "policy", *words, status=1)
