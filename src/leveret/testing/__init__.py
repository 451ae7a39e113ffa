"""A real broker inside a test: `with Broker() as broker: broker.url`. For pytest there are fixtures (`plugin.py`).

What is named here is imported when it is first used: pytest loads the plugin, and with it this module, in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leveret.testing.broker import Broker
    from leveret.work.run_once import Outcome, run_once

__all__ = ["Broker", "Outcome", "run_once"]

HOMES = {"Broker": "leveret.testing.broker", "Outcome": "leveret.work.run_once", "run_once": "leveret.work.run_once"}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)
