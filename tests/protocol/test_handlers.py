"""Every method a client may send on a channel has its handler, and nothing else has."""

from __future__ import annotations

from leveret.protocol.handlers import HANDLERS
from leveret.wire.spec import METHODS

# Handled where frames are walked, as they come often or in certain states only.
BY_THE_CHANNEL = {"basic.publish", "basic.ack", "basic.nack", "basic.reject", "channel.close-ok"}
BY_THE_BROKER = {
    "basic.return",
    "basic.deliver",
    "basic.get-ok",
    "basic.get-empty",
    "channel.flow-ok",
    "basic.credit-drained",
}


def test_handlers_are_found_by_name() -> None:
    for index, handler in HANDLERS.items():
        assert handler.__name__ == "on_" + METHODS[index].NAME.replace(".", "_").replace("-", "_")


def test_every_request_has_a_handler() -> None:
    requests = {
        method.NAME
        for method in METHODS.values()
        if not method.NAME.startswith("connection.") and not method.NAME.endswith("-ok")
    }
    handled = {METHODS[index].NAME for index in HANDLERS}
    assert handled == requests - BY_THE_CHANNEL - BY_THE_BROKER
