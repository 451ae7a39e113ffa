"""Say whether the installed Leveret is compiled or plain Python."""

import importlib.util
from pathlib import Path

spec = importlib.util.find_spec("leveret")
assert spec is not None
assert spec.origin is not None
folder = Path(spec.origin).parent
compiled = len(list(folder.rglob("*.so")))
hot = len([path for path in folder.rglob("*.pxd") if path.stem != "__init__"])
print(f"Leveret is installed: {compiled} of {hot} hot modules compiled" + ("" if compiled else " (plain Python)"))
