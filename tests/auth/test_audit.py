"""What is said of logins and changes."""

import json
import logging

import pytest

from leveret.auth.audit import EVENTS, NOT_SAID, SAID, Audit
from leveret.broker.broker import Broker, default_broker
from leveret.broker.command import COMMANDS, Command
from leveret.wire.content import properties_of

SECRET = "not-to-be-seen"


@pytest.fixture
def broker() -> Broker:
    return default_broker()


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [json.loads(record.message) for record in caplog.records if record.name == "leveret.audit"]


def test_every_command_has_an_event() -> None:
    assert set(EVENTS) == set(COMMANDS)


def test_every_field_is_known_to_be_a_secret_or_none() -> None:
    """Whoever adds a field decides whether it may be said."""
    fields = {name for command in COMMANDS.values() for name in command.__struct_fields__}
    assert fields <= SAID | NOT_SAID
    assert not SAID & NOT_SAID
    assert fields >= SAID | NOT_SAID


def test_change_of_a_request_is_said(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    audit = Audit(broker)
    broker.add_vhost("unsaid")
    with audit.origin("admin", "192.0.2.1"):
        broker.add_vhost("v", by="admin")
        broker.set_permissions("guest", "v", "a", "b", "c", by="admin")
    broker.add_vhost("unsaid too")
    assert lines(caplog) == [
        {"event": "vhost.created", "result": "ok", "by": "admin", "address": "192.0.2.1", "vhost": "v"},
        {
            "event": "permission.created",
            "result": "ok",
            "by": "admin",
            "address": "192.0.2.1",
            "user": "guest",
            "vhost": "v",
            "configure": "a",
            "write": "b",
            "read": "c",
        },
    ]


def test_no_secret_is_said(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    audit = Audit(broker, publish=True)
    with audit.origin("admin", "192.0.2.1"):
        user = broker.add_user("u", SECRET)
        broker.set_parameter("p", {"uri": SECRET})
    assert len(lines(caplog)) == 2
    assert SECRET not in caplog.text
    assert user.password_hash not in caplog.text


def test_logins_are_said(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Audit(broker)
    count = broker.churn.logins.count
    count("amqp091", "192.0.2.1", "shop", True)
    count("amqp091", "192.0.2.1", "shop\n", False)
    count("http", "192.0.2.1", "shop", True)
    found = [(line["event"], line["result"], line["name"]) for line in lines(caplog)]
    assert found == [
        ("user.authentication.success", "ok", "shop"),
        ("user.authentication.failure", "refused", "shop\n"),
    ]
    assert "\n" not in caplog.records[1].message


def test_whoever_listens_to_commands_still_hears_them(broker: Broker) -> None:
    heard: list[Command] = []
    broker.on_command = heard.append
    with Audit(broker).origin("admin", "192.0.2.1"):
        broker.add_vhost("v")
    broker.add_vhost("w")
    assert len(heard) == 2


def test_events_are_published_where_that_is_set(broker: Broker) -> None:
    """RabbitMQ: the names of events are the routing keys."""
    audit = Audit(broker, publish=True)
    vhost = broker.vhosts["/"]
    queue = vhost.declare_queue("q")
    vhost.bind("amq.rabbitmq.event", queue, "user.#", {})
    with audit.origin("admin", "192.0.2.1"):
        broker.add_user("u", "secret", ("management",))
        broker.add_vhost("v")
    while broker.work:
        broker.work.budget.begin()
        broker.work.drain()
    assert queue.ready_count == 1
    entry = queue.backlog.front.first()
    assert entry is not None
    message = entry.message
    assert message.origin.routing_key == "user.created"
    headers = properties_of(message.content, message.header_size).headers or {}
    assert (headers["user"], headers["by"], headers["tags"], headers["result"]) == ("u", "admin", ["management"], "ok")


def test_nothing_is_published_otherwise(broker: Broker) -> None:
    Audit(broker)
    assert "amq.rabbitmq.event" not in broker.vhosts["/"].exchanges
