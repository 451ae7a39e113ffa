"""`leveret bench` against a live broker."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.server.support import Process


def bench(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "leveret", "bench", "--url", url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    "arguments",
    [
        ("-r", "2000"),
        ("-r", "1000", "-x", "2", "-y", "2", "-s", "1000"),
        ("-r", "2000", "-c", "100", "-a", "10", "-f"),
    ],
)
def test_bench_gets_what_it_publishes(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """SPEC §9.5 bench: rates, and percentiles of how late messages came."""
    with Process(tmp_path) as broker:
        done = bench(f"amqp://guest:guest@127.0.0.1:{broker.port}/", "-z", "1", "--json", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        found: dict[str, Any] = json.loads(done.stdout)
        assert found["published"] == found["consumed"] > 500
        assert found["confirmed"] == (found["published"] if "-c" in arguments else 0)
        assert 0 < found["latency"]["p50_ms"] <= found["latency"]["p99_ms"] < 10_000
        with broker.login() as client:
            assert client.declare("kept") == 0


def test_bench_shows_progress_and_says_why_it_cannot(tmp_path: Path) -> None:
    """SPEC §9.5 bench: for people, and without a broker."""
    with Process(tmp_path) as broker:
        done = bench(f"amqp://127.0.0.1:{broker.port}", "-z", "1.5", "-r", "100")
        assert done.returncode == 0
        assert "consumed" in done.stdout.splitlines()[0]
        assert done.stdout.splitlines()[-1].startswith("latency   p50 ")
        refused = bench(f"amqp://guest:wrong@127.0.0.1:{broker.port}", "-z", "1")
        assert refused.returncode == 69
    nobody = bench("amqp://127.0.0.1:1", "-z", "1")
    assert (nobody.returncode, nobody.stdout) == (69, "")
    assert "Connection refused" in nobody.stderr
