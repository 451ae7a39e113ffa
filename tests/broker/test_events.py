"""What is remembered of what was made and removed."""

from leveret.broker.broker import Broker
from leveret.broker.events import EVENTS_MAX, Events


def test_since() -> None:
    """Whoever has missed something that is forgotten is told so."""
    events = Events()
    assert events.since(0) == []
    for number in range(EVENTS_MAX + 5):
        events.add("queue.created", "/", str(number))
    assert events.since(4) is None
    found = events.since(5)
    assert found is not None
    assert [event.number for event in found] == list(range(6, EVENTS_MAX + 6))
    assert events.since(events.count) == []
    assert [event.name for event in events.since(events.count - 1) or ()] == [str(EVENTS_MAX + 4)]


def test_what_the_model_tells() -> None:
    """SPEC §9.1: everything that is made or removed, and what goes with it."""
    broker = Broker()
    start = broker.events.count
    vhost = broker.add_vhost("v")
    broker.add_user("u", "p")
    broker.add_user("u", "another")
    broker.set_permissions("u", "v", "", "", "")
    vhost.declare_exchange("e", "direct", auto_delete=True)
    queue = vhost.declare_queue("q")
    vhost.bind("e", queue, "k", {})
    vhost.policies.set("p", "", {"max-length": 1})
    vhost.policies.clear("p")
    vhost.delete_queue("q", None)
    broker.delete_user("u")
    broker.delete_vhost("v")
    found = [(event.kind, event.vhost, event.name) for event in broker.events.since(start) or ()]
    assert found == [
        ("vhost.created", "v", "v"),
        ("user.created", None, "u"),
        ("permission.changed", "v", "u"),
        ("exchange.created", "v", "e"),
        ("queue.created", "v", "q"),
        ("binding.created", "v", "e"),
        ("policy.set", "v", "p"),
        ("policy.cleared", "v", "p"),
        ("binding.deleted", "v", "e"),
        ("exchange.deleted", "v", "e"),
        ("queue.deleted", "v", "q"),
        ("user.deleted", None, "u"),
        ("vhost.deleted", "v", "v"),
    ]
