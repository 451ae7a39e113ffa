"""For all suites: brokers that tests start take any free port for their HTTP API."""

import os

os.environ.setdefault("LEVERET_MANAGEMENT_PORT", "0")
os.environ.setdefault("LEVERET_PROMETHEUS_PORT", "0")
