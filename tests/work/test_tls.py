"""`leveret work` and `leveret bench` over TLS."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.support import PATIENCE, Process, eventually
from tests.server.tls_support import Trust
from tests.work.support import Place, WorkProcess

FILE = {"Name": "x", "Type": "Direct", "Subscriptions": [{"Name": "s", "RoutingKey": "k", "Handler": ["tee", "done"]}]}


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return Trust(tmp_path)


def test_worker_over_tls(trust: Trust, tmp_path: Path) -> None:
    """SPEC §10: and one that does not trust the broker says why."""
    (tmp_path / "x.json").write_text(json.dumps(FILE))
    with Process(tmp_path, environment=trust.environment()) as broker:
        url = f"amqps://guest:guest@localhost:{broker.port_of('amqps')}"
        trusting = {"LEVERET_URL": f"{url}?cacertfile={trust.ca}"}
        with WorkProcess(tmp_path, "x.json", environment=trusting) as worker, Place(broker.port).channel() as channel:
            worker.says("x.s")
            eventually(lambda: channel.queue_declare("x.s", passive=True).method.consumer_count == 1)
            channel.basic_publish("x", "k", b"over TLS")
            eventually(lambda: (tmp_path / "done").exists() and (tmp_path / "done").read_bytes() == b"over TLS")
            assert worker.stop() == 0
        with WorkProcess(tmp_path, "x.json", environment={"LEVERET_URL": url}) as worker:
            worker.says("the broker's certificate is not accepted: ")


@pytest.mark.parametrize("trusted", [True, False])
def test_bench_over_tls(trust: Trust, tmp_path: Path, trusted: bool) -> None:
    with Process(tmp_path, environment=trust.environment()) as broker:
        url = f"amqps://guest:guest@localhost:{broker.port_of('amqps')}/{f'?cacertfile={trust.ca}' if trusted else ''}"
        command = [sys.executable, "-m", "leveret", "bench", "--seconds", "0.5", "--json", "--confirm", "100", "--url", url]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        if trusted:
            assert done.returncode == 0, done.stderr
            figures = json.loads(done.stdout)
            assert figures["consumed"] == figures["published"] == figures["confirmed"] > 0
        else:
            assert done.returncode == 69
            assert "the broker's certificate is not accepted: " in done.stderr
            assert "Traceback" not in done.stderr
