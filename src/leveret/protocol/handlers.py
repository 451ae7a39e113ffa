"""Which function handles which method on a channel, by the method's index."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from leveret.protocol import basic, topology
from leveret.wire.spec import METHODS


def _handlers(*modules: ModuleType) -> dict[int, Callable[[Any, Any], None]]:
    """Find on_queue_declare for queue.declare, and so on."""
    found = {}
    for index, method in METHODS.items():
        name = "on_" + method.NAME.replace(".", "_").replace("-", "_")
        for module in modules:
            if hasattr(module, name):
                found[index] = getattr(module, name)
    return found


HANDLERS = _handlers(basic, topology)
