"""The README's hello-world works as it stands there."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

README = Path(__file__).parents[2] / "README.md"
CONNECT = 'ConnectionParameters("127.0.0.1")'


def test_hello_world_of_the_readme_prints_what_it_says(broker: Any) -> None:
    found = re.search(r"```python\n(.*?)```\n\nThis prints `(.*?)`", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    program, promised = found.groups()
    assert CONNECT in program
    # The README's broker listens on the usual port, ours on a free one.
    program = program.replace(CONNECT, f'ConnectionParameters("{broker.host}", {broker.port})')
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == (promised, "")
