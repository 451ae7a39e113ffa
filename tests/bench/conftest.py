"""The benches are scripts that import each other as tests.bench.*; the repository's root must be on the path for it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
