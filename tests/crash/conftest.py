"""Brokers that are killed: what the tests share with those of the server is imported as tests.server.support."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
