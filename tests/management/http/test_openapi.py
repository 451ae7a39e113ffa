"""The API describes itself, and keeps to that under requests that nobody would make."""

import subprocess
import sys
from pathlib import Path

from tests.management.support import Running

from leveret.management.api import ROUTES

# The first ends what is tried, the second does not end; the others answer 503 as they should: nothing listens there.
LEFT_OUT = "/api/(leveret/stop|stream|health/checks/(port|protocol)-listener/)"


def test_description_has_every_route(broker: Running) -> None:
    """SPEC §9.1: an OpenAPI document of all of it."""
    found = broker.http().get("/api/openapi.json")
    described = {(method.upper(), path) for path, item in found["paths"].items() for method in item}
    assert described == {(route.method, route.path) for route in ROUTES}
    operations = [operation for item in found["paths"].values() for operation in item.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all(operation["summary"] for operation in operations)


def test_no_request_is_answered_with_a_failure(tmp_path: Path) -> None:
    """SPEC §9.1: schemathesis asks for each route in many odd ways, and never gets a 5xx that is not meant."""
    with Running(tmp_path) as running:
        url = f"http://127.0.0.1:{running.http_port}/api/openapi.json"
        command = [str(Path(sys.executable).with_name("schemathesis")), "run", url, "--auth", "guest:guest"]
        command += ["-c", "not_a_server_error", "--exclude-path-regex", LEFT_OUT, "--max-examples", "5"]
        command += ["--phases", "coverage,fuzzing", "--generation-deterministic"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
        # It may have deleted guest, whom it has seen in answers.
        assert running.http().ask("GET", "/api/whoami").status in (200, 401)
