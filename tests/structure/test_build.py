"""Without a C compiler the install is plain Python, and says so."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_build_without_a_compiler_is_plain_python(tmp_path: Path) -> None:
    environment = {**os.environ, "CC": "/bin/false", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", str(tmp_path / "base")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "installing plain Python" in done.stderr
    built = list((tmp_path / "base").rglob("leveret/**/*"))
    assert any(path.name == "queue.py" for path in built)
    assert not [path for path in built if path.suffix == ".so"]
