"""The fuzzer is a script too: its parts import each other as tests.properties.*, so the root must be on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
