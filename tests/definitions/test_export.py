"""Definitions out of a broker."""

from leveret.broker.broker import default_broker
from leveret.definitions.export import export, export_vhost
from leveret.definitions.file_import import import_definitions
from leveret.wire.values import SignedInt


def test_what_is_not_exported() -> None:
    """SPEC §9.2: export leaves out what every vhost has, what a connection owns and what JSON cannot say."""
    vhost = default_broker().vhosts["/"]
    vhost.bind("amq.direct", vhost.declare_queue("exclusive", owner=object()), "k", {})
    vhost.declare_queue("q\udcff")
    vhost.bind("amq.direct", vhost.declare_queue("q"), "k", {"n": SignedInt(5), "b": b"\xff", "l": [None, {"t": True}]})
    found = export_vhost(vhost)
    assert [queue["name"] for queue in found["queues"]] == ["q"]
    assert found["exchanges"] == []
    assert [(one["source"], one["destination"]) for one in found["bindings"]] == [("amq.direct", "q")]
    assert found["bindings"][0]["arguments"] == {"n": 5, "b": "\ufffd", "l": [None, {"t": True}]}


def test_classic_queues_stay_classic() -> None:
    """SPEC §9.2: export; SPEC §7.1 default queue type"""
    broker, again = default_broker(), default_broker()
    broker.vhosts["/"].declare_queue("q", durable=True)
    broker.vhosts["/"].set_default_queue_type("quorum")
    import_definitions(again, export(broker))
    assert again.vhosts["/"].queues["q"].arguments == {"x-queue-type": "classic"}
