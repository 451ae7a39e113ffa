"""What a shovel's parameter says, and how RabbitMQ says what is wrong with one."""

from typing import Any

import pytest

from leveret.broker.access import User
from leveret.broker.broker import Broker, default_broker
from leveret.broker.shovel import SHOVELS_MAX, check_shovel, shovel_definition
from leveret.errors import PreconditionFailed

GOOD: dict[str, Any] = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://h", "dest-queue": "b"}
WITHOUT_SOURCE = {key: value for key, value in GOOD.items() if key != "src-queue"}
WITHOUT_DESTINATION = {key: value for key, value in GOOD.items() if key != "dest-queue"}


def test_defaults() -> None:
    """SPEC §9.8: RabbitMQ's defaults."""
    check_shovel("s", GOOD)
    found = shovel_definition(GOOD)
    assert [uri.shown for uri in found.source.uris] == ["amqp://"]
    assert (found.source.queue, found.source.exchange, found.source.routing_key) == ("a", None, "")
    assert (found.source.prefetch_count, found.source.delete_after) == (1000, "never")
    assert (found.destination.queue, found.destination.exchange, found.destination.routing_key) == ("b", None, None)
    assert (found.destination.forward_headers, found.destination.timestamp_header) == (False, False)
    assert found.destination.properties == {}
    assert (found.ack_mode, found.reconnect_delay_s) == ("on-confirm", 5)


def test_everything_said() -> None:
    """SPEC §9.8: all keys, several URIs."""
    value = WITHOUT_SOURCE | {
        "src-protocol": "amqp091",
        "dest-protocol": "amqp091",
        "src-uri": ["amqp://", "amqp://other"],
        "src-exchange": "x",
        "src-exchange-key": "k",
        "src-prefetch-count": 7,
        "src-delete-after": 3,
        "src-queue-args": {"x-max-length": 5, "x-queue-type": "quorum", "x-delivery-limit": 3},
        "src-consumer-args": {"x-priority": 5},
        "dest-queue-args": {"x-message-deduplication": True},
        "dest-add-forward-headers": True,
        "dest-add-timestamp-header": True,
        "dest-publish-properties": {"delivery_mode": 2, "content_type": "text/plain", "timestamp": 9},
        "ack-mode": "on-publish",
        "reconnect-delay": 0.5,
    }
    check_shovel("s", value)
    found = shovel_definition(value)
    assert [uri.host for uri in found.source.uris] == [None, "other"]
    assert (found.source.queue, found.source.exchange, found.source.routing_key) == (None, "x", "k")
    assert (found.source.prefetch_count, found.source.delete_after) == (7, 3)
    assert found.source.consumer_arguments == {"x-priority": 5}
    assert (found.destination.forward_headers, found.destination.timestamp_header) == (True, True)
    assert found.destination.properties == {"delivery_mode": 2, "content_type": "text/plain", "timestamp": 9}
    assert (found.ack_mode, found.reconnect_delay_s) == ("on-publish", 0.5)


def test_names_from_before_3_7() -> None:
    """SPEC §9.8: old names, which count only where the new ones are not."""
    old = {
        "prefetch-count": 7,
        "delete-after": "queue-length",
        "add-forward-headers": True,
        "add-timestamp-header": True,
        "publish-properties": {"delivery_mode": 1},
    }
    check_shovel("s", GOOD | old)
    found = shovel_definition(GOOD | old)
    assert (found.source.prefetch_count, found.source.delete_after) == (7, "queue-length")
    assert (found.destination.forward_headers, found.destination.timestamp_header) == (True, True)
    assert found.destination.properties == {"delivery_mode": 1}
    new = {"src-prefetch-count": 8, "src-delete-after": "never", "dest-add-forward-headers": False}
    found = shovel_definition(GOOD | old | new)
    assert (found.source.prefetch_count, found.source.delete_after) == (8, "never")
    assert not found.destination.forward_headers


@pytest.mark.parametrize(
    "more",
    [
        {"src-delete-after": 0},
        {"src-prefetch-count": 0},
        {"reconnect-delay": 0},
        {"reconnect-delay": -1},
        {"ack-mode": "no-ack", "src-delete-after": "queue-length"},
        {"src-queue-args": {}},
        {"src-queue-args": []},
        {"dest-publish-properties": {}},
        {"src-queue": "x" * 255},
        {"dest-uri": ["amqp://"]},
    ],
)
def test_what_is_good(more: dict[str, Any]) -> None:
    """SPEC §9.8: values at their limits."""
    check_shovel("s", GOOD | more)
    shovel_definition(GOOD | more)


def test_negative_delay_is_none() -> None:
    """SPEC §9.8: as 0, which is for one that does not try again."""
    assert shovel_definition(GOOD | {"reconnect-delay": -1}).reconnect_delay_s == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", 's not a list <<"text">>'),
        ([1], "s not a list [1]"),
        (
            {},
            "Must specify 'src-exchange' or 'src-queue'\nKey \"dest-uri\" not found in s\nKey \"src-uri\" not found in s",
        ),
        (WITHOUT_SOURCE, "Must specify 'src-exchange' or 'src-queue'"),
        (GOOD | {"src-exchange": "x"}, "Cannot specify 'src-exchange' and 'src-queue'"),
        (GOOD | {"dest-exchange": "x"}, "Cannot specify 'dest-exchange' and 'dest-queue'"),
        (
            GOOD | {"ack-mode": "no-ack", "src-delete-after": 5},
            "Cannot specify 'no-ack' and numerical 'delete-after'",
        ),
        (GOOD | {"ack-mode": "no-ack", "delete-after": 5}, "Cannot specify 'no-ack' and numerical 'delete-after'"),
        (GOOD | {"unknown": 1}, 'Unrecognised terms [{<<"unknown">>,1}] in s'),
        (GOOD | {"src-predeclared": True}, 'Unrecognised terms [{<<"src-predeclared">>,true}] in s'),
        (
            GOOD | {"ack-mode": "perhaps"},
            'ack-mode should be one of [<<"no-ack">>,<<"on-publish">>,<<"on-confirm">>], actually was <<"perhaps">>',
        ),
        (GOOD | {"ack-mode": 5}, "ack-mode should be binary, actually was 5"),
        (
            GOOD | {"src-protocol": "mqtt"},
            'src-protocol should be one of [<<"amqp10">>,<<"amqp091">>], actually was <<"mqtt">>',
        ),
        (GOOD | {"src-protocol": "amqp10"}, "src-protocol amqp10 is not supported, only amqp091"),
        (GOOD | {"dest-protocol": "amqp10"}, "dest-protocol amqp10 is not supported, only amqp091"),
        (GOOD | {"src-queue": 5}, "src-queue should be binary, actually was 5"),
        (GOOD | {"dest-queue": "é" * 128}, "dest-queue should be less than 255 bytes, actually was 256"),
        (GOOD | {"reconnect-delay": "5"}, 'reconnect-delay should be a number, actually was <<"5">>'),
        (GOOD | {"reconnect-delay": True}, "reconnect-delay should be a number, actually was true"),
        (GOOD | {"src-prefetch-count": "x"}, 'src-prefetch-count should be a number, actually was <<"x">>'),
        (
            GOOD | {"prefetch-count": 65536},
            "prefetch-count should be a whole number from 0 to 65535, actually was 65536",
        ),
        (
            GOOD | {"src-prefetch-count": 1.5},
            "src-prefetch-count should be a whole number from 0 to 65535, actually was 1.5",
        ),
        (
            GOOD | {"src-delete-after": -1},
            'src-delete-after should be a number greater than or equal to 0, "never" or "queue-length", actually was -1',
        ),
        (
            GOOD | {"delete-after": True},
            'delete-after should be a number greater than or equal to 0, "never" or "queue-length", actually was true',
        ),
        (
            GOOD | {"dest-add-forward-headers": "true"},
            'dest-add-forward-headers should be boolean, actually was <<"true">>',
        ),
        (GOOD | {"src-queue-args": {"x-bad": 1}}, 'Unrecognised terms [{<<"x-bad">>,1}] in src-queue-args'),
        (GOOD | {"src-queue-args": 5}, "src-queue-args not a list 5"),
        (
            GOOD | {"dest-queue-args": {"x-max-length": 1 << 63}},
            "dest-queue-args cannot be sent: 9223372036854775808 does not fit the type long",
        ),
        (GOOD | {"src-consumer-args": {"x": 1}}, 'Unrecognised terms [{<<"x">>,1}] in src-consumer-args'),
        (
            GOOD | {"dest-publish-properties": {"headers": {}}},
            'Unrecognised terms [{<<"headers">>,[]}] in dest-publish-properties',
        ),
        (
            GOOD | {"dest-publish-properties": {"delivery_mode": "2"}},
            'delivery_mode should be a number, actually was <<"2">>',
        ),
        (
            GOOD | {"publish-properties": {"priority": 256}},
            "publish-properties cannot be sent: 256 does not fit the type octet",
        ),
        (GOOD | {"dest-uri": 5}, "dest-uri should be list, actually was 5"),
        (GOOD | {"dest-uri": []}, "dest-uri should have at least one URI"),
        (GOOD | {"dest-uri": ["amqp://", 5]}, "dest-uri should be list, actually was 5"),
        (
            GOOD | {"dest-uri": "http://h"},
            '"http://h" not a valid URI: {{unexpected_uri_scheme,"http"},"http://h"}',
        ),
        (
            GOOD | {"dest-uri": "http://u:secret@h"},
            '"http://h" not a valid URI: {{unexpected_uri_scheme,"http"},"http://h"}',
        ),
        (
            GOOD | {"src-uri": ["amqp://", "amqp://:1"]},
            '"amqp://:1" not a valid URI: {port_requires_host,"amqp://:1"}',
        ),
        (
            GOOD | {"ack-mode": 5, "src-queue": 5, "more": 5, "dest-exchange": "x"},
            "Cannot specify 'dest-exchange' and 'dest-queue'\n"
            'Unrecognised terms [{<<"more">>,5}] in s\n'
            "src-queue should be binary, actually was 5\n"
            "ack-mode should be binary, actually was 5",
        ),
    ],
)
def test_what_is_wrong(value: Any, text: str) -> None:
    """SPEC §9.8: RabbitMQ's texts, all faults in its order."""
    with pytest.raises(PreconditionFailed) as caught:
        check_shovel("s", value)
    assert str(caught.value) == text


def test_arguments_nested_too_deeply_are_refused() -> None:
    """SPEC §9.8: what a broker would not read."""
    nested: Any = 1
    for _ in range(200):
        nested = [nested]
    with pytest.raises(PreconditionFailed, match=r"^src-queue-args cannot be sent: "):
        check_shovel("s", GOOD | {"src-queue-args": {"x-max-length": nested}})


# In the model


@pytest.fixture
def broker() -> Broker:
    return default_broker()


def test_changes_are_told_once_each(broker: Broker) -> None:
    """SPEC §9.8: set, changed, cleared; RabbitMQ: setting the same again is nothing."""
    told: list[tuple[str, str]] = []
    broker.on_shovel = lambda vhost, name: told.append((vhost, name))
    vhost = broker.vhosts["/"]
    vhost.parameters.set("shovel", "s", GOOD)
    vhost.parameters.set("shovel", "s", dict(GOOD))
    assert told == [("/", "s")]
    vhost.parameters.set("shovel", "s", GOOD | {"src-queue": "c"})
    vhost.parameters.clear("shovel", "s")
    assert told == [("/", "s")] * 3


def test_refused_parameter_changes_nothing(broker: Broker) -> None:
    """SPEC §9.8: a bad value leaves the good one."""
    vhost = broker.vhosts["/"]
    vhost.parameters.set("shovel", "s", GOOD)
    with pytest.raises(PreconditionFailed):
        vhost.parameters.set("shovel", "s", {})
    assert vhost.parameters.values["shovel", "s"] == GOOD


def test_deleting_a_vhost_tells_of_its_shovels(broker: Broker) -> None:
    """SPEC §9.8: they are gone by then."""
    told: list[tuple[str, bool]] = []
    broker.on_shovel = lambda vhost, name: told.append((name, vhost in broker.vhosts))
    vhost = broker.add_vhost("v")
    vhost.parameters.set("shovel", "s", GOOD)
    broker.delete_vhost("v")
    assert told == [("s", True), ("s", False)]


def test_who_sets_one_must_be_able_to_enter_the_vhosts_it_names(broker: Broker) -> None:
    """SPEC §9.8: a URI without a host needs no password, but access to its vhost."""
    broker.add_vhost("v")
    broker.add_user("u", "p")
    broker.set_permissions("u", "/", "", "", "")
    vhost, user = broker.vhosts["/"], broker.users["u"]
    vhost.parameters.set("shovel", "s", GOOD, user)
    for uri, name in (("amqp:///v", "v"), ("amqp:///nowhere", "nowhere"), ("amqp://guest@/v", "v")):
        for key in ("src-uri", "dest-uri"):
            for value in (uri, ["amqp://", uri]):
                with pytest.raises(PreconditionFailed) as caught:
                    vhost.parameters.set("shovel", "t", GOOD | {key: value}, user)
                assert str(caught.value) == f'user "u" may not connect to vhost "{name}"'
    # Over the network there is a password, and who is no user of the API is trusted.
    vhost.parameters.set("shovel", "t", GOOD | {"src-uri": "amqp://h/v"}, user)
    vhost.parameters.set("shovel", "t", GOOD | {"src-uri": "amqp:///v"})


def test_there_may_be_so_many(broker: Broker) -> None:
    """SPEC §9.8: a limit for the node, not for changing those that are there."""
    vhosts = [broker.vhosts["/"], broker.add_vhost("v")]
    for number in range(SHOVELS_MAX):
        vhosts[number % 2].parameters.set("shovel", f"s{number}", GOOD)
    with pytest.raises(PreconditionFailed, match=f"^component shovel is limited to {SHOVELS_MAX} per node$"):
        vhosts[0].parameters.set("shovel", "more", GOOD)
    vhosts[0].parameters.set("shovel", "s0", GOOD | {"src-queue": "c"})


def test_user_without_rights_is_named(broker: Broker) -> None:
    """SPEC §9.8: a user who may enter nothing."""
    with pytest.raises(PreconditionFailed, match=r'^user "x" may not connect to vhost "/"$'):
        broker.vhosts["/"].parameters.set("shovel", "s", GOOD, User("x", ""))
