"""`leveret check`, `top`, `messages` and `definitions` against a live broker."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.management.support import Running

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("nouns")) as running:
        yield running


@pytest.fixture
def leveret(broker: Running) -> Run:
    def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "leveret", *arguments, "--data-dir", str(broker.folder / "data")]
        return subprocess.run(command, capture_output=True, text=True, check=False, input=given, timeout=60)

    return run


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_check_says_whether_all_is_well(leveret: Run, broker: Running, tmp_path: Path) -> None:
    """SPEC §9.5 check: 0 if well, 1 under an alarm, 69 without a broker."""
    assert (leveret("check").returncode, leveret("check").stdout) == (0, "ok\n")
    http = broker.http()
    assert http.put("/api/leveret/settings", {"disk_free_limit": 1 << 50}).status == 204
    assert leveret("check").returncode == 1
    assert http.put("/api/leveret/settings", {"disk_free_limit": 1000}).status == 204
    assert leveret("check").returncode == 0
    command = [sys.executable, "-m", "leveret", "check", "--data-dir", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 69


def test_top_shows_the_longest_queues(leveret: Run, broker: Running) -> None:
    """SPEC §9.5 top: once, for people and as JSON."""
    with broker.login() as client:
        client.declare("short")
        client.declare("long")
        client.publish_many("long", [b"1", b"2"])
        client.publish_many("short", [b"1"])
        found = json.loads(leveret("top", "--once", "--json").stdout)
        assert [queue["name"] for queue in found["queues"][:2]] == ["long", "short"]
        assert found["totals"]["messages"] >= 3
        shown = leveret("top", "--once").stdout.splitlines()
        assert shown[0].startswith(found["node"])
        assert any(line.split()[:2] == ["2", "2"] and line.endswith("/ long") for line in shown)


def test_messages_are_published_looked_at_moved_and_got(leveret: Run, broker: Running) -> None:
    """SPEC §9.5 messages: peek changes nothing."""
    with broker.login() as client:
        client.declare("from", durable=True)
        client.declare("to", durable=True)
    for body in ("one", "two", "three"):
        assert leveret("messages", "publish", "from", body).returncode == 0
    assert leveret("messages", "publish", "from", given="from stdin").returncode == 0
    assert leveret("messages", "publish", "no such queue", "x").returncode == 1
    for _ in range(2):
        seen = rows(leveret("messages", "peek", "from", "-o", "jsonl"))
        assert [(one["payload"], one["redelivered"]) for one in seen][:2] == [("one", False), ("two", False)]
    assert [one["payload"] for one in rows(leveret("messages", "peek", "from", "--offset", "3", "-o", "jsonl"))] == [
        "from stdin"
    ]
    assert leveret("messages", "move", "from", "to", "-n", "2").stdout == "moved 2\n"
    assert [one["payload"] for one in rows(leveret("messages", "peek", "to", "-o", "jsonl"))] == ["one", "two"]
    got = rows(leveret("messages", "get", "from", "-n", "5", "-o", "jsonl"))
    assert [one["payload"] for one in got] == ["three", "from stdin"]
    assert rows(leveret("messages", "get", "from", "-o", "jsonl")) == []
    assert "payload" in leveret("messages", "peek", "to").stdout.splitlines()[0]
    missing = leveret("messages", "peek", "nowhere")
    assert (missing.returncode, missing.stdout) == (1, "")


def test_definitions_are_exported_compared_and_imported(leveret: Run, broker: Running, tmp_path: Path) -> None:
    """SPEC §9.5 definitions: diff ends with 1 if something differs."""
    file = tmp_path / "definitions.json"
    assert leveret("definitions", "export", str(file)).returncode == 0
    assert (leveret("definitions", "diff", str(file)).returncode, leveret("definitions", "diff", str(file)).stdout) == (
        0,
        "",
    )
    found = json.loads(file.read_text())
    found["queues"].append({"name": "new", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}})
    file.write_text(json.dumps(found))
    differs = leveret("definitions", "diff", str(file))
    assert differs.returncode == 1
    assert differs.stdout.startswith('- queues {"arguments": {}')
    assert leveret("definitions", "import", str(file)).returncode == 0
    assert "new" in [queue["name"] for queue in broker.http().get("/api/queues")]
    assert leveret("definitions", "import", "-", given="{").returncode == 1


def test_definitions_without_counterpart_are_left_out_if_wanted(leveret: Run, broker: Running, tmp_path: Path) -> None:
    """SPEC §9.5 definitions: what cannot be is told with what to do; --skip-unsupported imports the rest."""
    stream = {"name": "s", "vhost": "/", "durable": True, "auto_delete": False, "type": "stream", "arguments": {}}
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [stream, {**stream, "name": "classic", "type": "classic"}]}))
    (tmp_path / "erlang").write_bytes(b"\x83P\0")
    wrong = leveret("definitions", "import", str(tmp_path / "erlang"))
    assert (wrong.returncode, "export it with --format json" in wrong.stderr) == (1, True)
    refused = leveret("definitions", "import", str(file))
    assert (refused.returncode, "--skip-unsupported" in refused.stderr) == (1, True)
    assert "classic" not in [queue["name"] for queue in broker.http().get("/api/queues")]
    done = leveret("definitions", "import", str(file), "--skip-unsupported")
    assert (done.returncode, done.stderr) == (0, "skipped: queues[0] (s in /): stream queues\n")
    assert "classic" in [queue["name"] for queue in broker.http().get("/api/queues")]
