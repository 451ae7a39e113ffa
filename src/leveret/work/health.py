"""Counters and health of a runtime over HTTP: `/metrics` for Prometheus, `/health` for probes."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from leveret.work.runtime import Runtime

HELP = {
    "received": "Messages received",
    "handled": "Messages whose handler succeeded",
    "failed": "Messages whose handler failed",
    "refused": "Messages rejected, by a policy or by the handler itself",
    "unacknowledged": "Messages that failed and were left unacknowledged",
    "receipts": "Receipts sent",
    "disconnects": "Connections lost, or attempts to connect that failed",
}


class HealthServer:
    """An HTTP server in a thread of its own."""

    def __init__(self, runtime: Runtime, port: int, host: str = "127.0.0.1") -> None:
        kind = type("Handler", (HealthRequest,), {"runtime": runtime})
        self._server = ThreadingHTTPServer((host, port), kind)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="leveret-work health", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class HealthRequest(BaseHTTPRequestHandler):
    """One request."""

    runtime: ClassVar[Runtime]
    # Slower clients are disconnected.
    timeout = 5

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(200, metrics(self.runtime))
        elif self.path == "/health":
            listening, all_of_them = self.runtime.listening, len(self.runtime.workers)
            well = listening == all_of_them
            self._answer(200 if well else 503, f"{listening} of {all_of_them} workers are listening\n")
        else:
            self._answer(404, "try /metrics or /health\n")

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Probes are not logged."""


def metrics(runtime: Runtime) -> str:
    """All counters by worker, as Prometheus reads them."""
    lines = [
        "# HELP leveret_work_in_flight Messages that handlers are working on",
        "# TYPE leveret_work_in_flight gauge",
        f"leveret_work_in_flight {runtime.in_flight}",
        "# HELP leveret_work_listening Whether a worker is connected and consuming",
        "# TYPE leveret_work_listening gauge",
    ]
    labels = {worker.title: f'{{worker="{escaped(worker.title)}"}}' for worker in runtime.workers}
    lines += [f"leveret_work_listening{labels[worker.title]} {int(worker.listening)}" for worker in runtime.workers]
    for name, about in HELP.items():
        lines += [f"# HELP leveret_work_{name}_total {about}", f"# TYPE leveret_work_{name}_total counter"]
        for worker in runtime.workers:
            lines.append(f"leveret_work_{name}_total{labels[worker.title]} {getattr(worker.counters, name)}")
    return "\n".join(lines) + "\n"


def escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
