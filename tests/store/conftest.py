"""The store: what the tests share is imported as tests.store.support, so the root must be on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
