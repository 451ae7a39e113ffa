"""The examples are run as users run them; how a broker is started is imported as tests.bench.brokers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
