"""Vhosts, users, rights and policies out of a settings file: each reaches the broker, and what is wrong is named."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.properties.dialogue import PROTOCOL_HEADER, handshake, method
from tests.server.support import Client, InProcess

from leveret.broker.broker import Broker, default_broker
from leveret.broker.password import hash_password
from leveret.definitions.settings import BadDefinition, Definitions, apply
from leveret.definitions.user import UserDefinition
from leveret.server.config import BadSetting, load
from leveret.server.node import configured_broker
from leveret.wire import spec

README = Path(__file__).parents[2] / "README.md"

# Every kind of definition, with every field it has.
EVERYTHING = f"""
port = 0

[[vhosts]]
name = "orders"
description = "Orders of all shops"
tags = ["production"]
default_queue_type = "quorum"
limits = {{ max-queues = 3, max-connections = 2 }}
tracing = true

[[vhosts]]
name = "plain"

[[users]]
name = "shop"
password = "secret"
tags = ["management", "policymaker"]
limits = {{ max-connections = 2, max-channels = 1 }}
loopback_only = true

[[users]]
name = "hashed"
password_hash = "{hash_password(b"hashed", hashing="rabbit_password_hashing_sha512")}"
hashing_algorithm = "rabbit_password_hashing_sha512"

[[users]]
name = "nobody"

[[permissions]]
user = "shop"
vhost = "orders"
configure = "^shop\\\\."
write = ".*"
read = "^(shop|amq)\\\\."

[[permissions]]
user = "hashed"

[[topic_permissions]]
user = "shop"
vhost = "orders"
exchange = "amq.topic"
write = "^{{username}}\\\\."
read = "^news"

[[policies]]
vhost = "orders"
name = "bounded"
pattern = "^shop"
definition = {{ max-length = 2, alternate-exchange = "amq.fanout" }}
priority = 5
apply-to = "all"

[[policies]]
vhost = "orders"
name = "exchanges"
pattern = ""
definition = {{ alternate-exchange = "amq.direct" }}
apply-to = "exchanges"

[[operator_policies]]
vhost = "orders"
name = "operator's"
pattern = ""
definition = {{ expires = 60000, max-length = 1 }}
apply-to = "queues"

[[parameters]]
component = "shovel"
name = "s"
vhost = "plain"
value = {{ src-uri = "amqp://", src-queue = "a", dest-uri = "amqp://", dest-queue = "b" }}

[[parameters]]
component = "vhost-limits"
name = "limits"
vhost = "plain"
value = {{ max-queues = 7 }}

[global_parameters]
cluster_name = "hare"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "leveret.toml"
    path.write_text(EVERYTHING)
    return path


@pytest.fixture
def broker(file: Path) -> Broker:
    return configured_broker(load(str(file), {}, {}))


@pytest.fixture
def running(file: Path) -> Iterator[InProcess]:
    """A node that runs with these settings."""
    with InProcess(load(str(file), {"storage": "memory"}, {})) as node:
        yield node


def login(node: InProcess, name: str, password: str, vhost: str = "/") -> Client:
    return node.login(response=f"\0{name}\0{password}".encode(), vhost=vhost)


# What is defined is there


def test_every_kind_is_tried_here() -> None:
    """SPEC §7 from a settings file"""
    for kind in Definitions.__struct_fields__:
        assert f"[{kind}]" in EVERYTHING


def test_vhosts(broker: Broker) -> None:
    """SPEC §7.1 description, SPEC §7.1 tags, default queue type and limits; SPEC §9.6 tracing"""
    assert list(broker.vhosts) == ["/", "orders", "plain"]
    vhost = broker.vhosts["orders"]
    assert (vhost.description, vhost.tags, vhost.default_queue_type) == ("Orders of all shops", ("production",), "quorum")
    assert (vhost.limits, vhost.tracing) == ({"max-queues": 3, "max-connections": 2}, True)
    plain = broker.vhosts["plain"]
    assert (plain.description, plain.tags, plain.default_queue_type, plain.tracing) == ("", (), None, False)


def test_users(broker: Broker) -> None:
    """SPEC §7.2 user tags and limits; SPEC §7.4 password hashes; SPEC §7.3: guest is there only if nobody else is"""
    assert list(broker.users) == ["shop", "hashed", "nobody"]
    shop, hashed, nobody = broker.users.values()
    assert (shop.tags, shop.loopback_only) == (("management", "policymaker"), True)
    assert shop.limits == {"max-connections": 2, "max-channels": 1}
    assert shop.has_password(b"secret")
    assert hashed.has_password(b"hashed")
    assert (hashed.loopback_only, hashed.tags, hashed.limits) == (False, (), {})
    assert not nobody.has_password(b"")


def test_settings_say_who_may_log_in_from_elsewhere() -> None:
    """SPEC §7.3 loopback peers only: also for a user that is there already"""
    broker = default_broker()
    for loopback_only in (True, False, True):
        apply(broker, Definitions(users=[UserDefinition("u", password="x", loopback_only=loopback_only)]))
        assert broker.users["u"].loopback_only is loopback_only


def test_guest_is_there_without_other_users(tmp_path: Path) -> None:
    """SPEC §7.3 default user, whatever else is defined"""
    path = tmp_path / "leveret.toml"
    path.write_text('[[vhosts]]\nname = "v"\n[[permissions]]\nuser = "guest"\nvhost = "v"\nread = ".*"\n')
    broker = configured_broker(load(str(path), {}, {}))
    assert list(broker.users) == ["guest"]
    assert broker.users["guest"].rights["/"].allows("configure", "x")
    assert [broker.users["guest"].rights["v"].allows(right, "x") for right in ("write", "read")] == [False, True]


def test_permissions(broker: Broker) -> None:
    """SPEC §7.2 permissions and topic permissions"""
    rights = broker.users["shop"].rights["orders"]
    assert [rights.pattern(right) for right in ("configure", "write", "read")] == ["^shop\\.", ".*", "^(shop|amq)\\."]
    assert rights.topics == {"amq.topic": ("^{username}\\.", "^news")}
    assert "/" not in broker.users["shop"].rights
    assert broker.users["hashed"].rights["/"].granted
    assert not broker.users["hashed"].rights["/"].allows("read", "q")
    assert not broker.users["nobody"].rights


def test_policies(broker: Broker) -> None:
    """SPEC §7.6 policies and operator policies"""
    vhost = broker.vhosts["orders"]
    bounded = vhost.policies.by_name["bounded"]
    assert (bounded.pattern.text, bounded.priority, bounded.apply_to) == ("^shop", 5, "all")
    assert vhost.policies.by_name["exchanges"].apply_to == "exchanges"
    assert list(vhost.operator_policies.by_name) == ["operator's"]
    queue = vhost.declare_queue("shop.q")
    assert (queue.settings.max_length, queue.settings.expires_ms) == (1, 60000)
    assert vhost.declare_exchange("shop.x", "direct").alternate == "amq.fanout"
    assert vhost.exchanges["amq.headers"].alternate == "amq.direct"
    assert broker.vhosts["/"].declare_queue("shop.q").settings.max_length is None


def test_parameters(broker: Broker) -> None:
    """SPEC §7.6 runtime parameters and SPEC §7.6 global parameters"""
    plain = broker.vhosts["plain"]
    value = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
    assert plain.parameters.values["shovel", "s"] == value
    assert plain.limits == {"max-queues": 7}
    assert broker.parameters == {"cluster_name": "hare"}


def test_example_of_the_readme_is_taken(tmp_path: Path) -> None:
    """SPEC §7 as the README shows it"""
    found = re.search(r"```toml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    path = tmp_path / "leveret.toml"
    path.write_text(found[1])
    broker = configured_broker(load(str(path), {}, {}))
    assert (list(broker.users), list(broker.vhosts)) == (["shop"], ["/", "orders"])
    assert broker.users["shop"].rights["orders"].allows("configure", "shop.q")
    assert broker.vhosts["orders"].declare_queue("q").settings.max_length == 100_000


# It runs


def test_users_log_in_where_they_may(running: InProcess) -> None:
    """SPEC §7.1 virtual hosts, §7.2 users, §7.4 hashes, over a socket"""
    with login(running, "shop", "secret", "orders"), login(running, "hashed", "hashed"):
        pass
    for response, vhost, text in (
        (b"\0guest\0guest", "/", "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."),
        (b"\0shop\0secret", "/", "NOT_ALLOWED - access to vhost '/' refused for user 'shop'"),
        (b"\0shop\0secret", "none", "NOT_ALLOWED - vhost none not found"),
    ):
        with running.connect() as client:
            client.socket.sendall(PROTOCOL_HEADER)
            client.expect(spec.ConnectionStart)
            client.send(*handshake(response=response, vhost=vhost))
            answer = client.read()
            if isinstance(answer, spec.ConnectionTune):
                answer = client.read()
            assert isinstance(answer, spec.ConnectionClose)
            assert answer.reply_text.startswith(text)


def test_rights_limits_and_policies_hold(running: InProcess) -> None:
    """SPEC §7.1 vhost limits and default queue type, §7.2 permissions and limits, §7.6 policies, over a socket"""
    with login(running, "shop", "secret", "orders") as client:
        client.call(spec.QueueDeclare("shop.q", durable=True), spec.QueueDeclareOk)
        client.publish_many("shop.q", [b"1", b"2", b"3"])
        assert client.declare("shop.q", passive=True) == 1
        vhost = running.node.broker.vhosts["orders"]
        assert vhost.queues["shop.q"].arguments == {"x-queue-type": "quorum"}
        close = client.call(spec.QueueDeclare("q"), spec.ChannelClose)
        assert close.reply_text == (
            "ACCESS_REFUSED - configure access to queue 'q' in vhost 'orders' refused for user 'shop'"
        )
        client.send(method(1, spec.ChannelCloseOk()))
        client.open(1)
        ended = client.call(spec.ChannelOpen(), spec.ConnectionClose, channel=2)
        assert ended.reply_text == (
            "NOT_ALLOWED - number of channels opened for user 'shop' has reached the maximum allowed user limit of (1)"
        )


# What is wrong is named


@pytest.mark.parametrize(
    ("text", "place", "rule"),
    [
        # SPEC §7: what has not the form of a definition
        ("users = 5", "users", "Expected `array`, got `int`"),
        ("[users]\nname = 'u'", "users", "Expected `array`, got `object`"),
        ("[[users]]\npassword = 'x'", "users[0]", "Object missing required field `name`"),
        ("[[users]]\nname = 5", "users[0].name", "Expected `str`, got `int`"),
        (
            "[[users]]\nname = 'u'\n[[users]]\nname = 'v'\npasword = 'x'",
            "users[1]",
            "Object contains unknown field `pasword`",
        ),
        ("[[users]]\nname = 'u'\ntags = 'a,b'", "users[0].tags", "Expected `array`, got `str`"),
        ("[[users]]\nname = 'u'\nlimits = { max-channels = 'x' }", "users[0].limits[...]", "Expected `int`, got `str`"),
        ("[[vhosts]]\nname = 'v'\ntracing = 'x'", "vhosts[0].tracing", "Expected `bool`, got `str`"),
        ("[[permissions]]\nvhost = '/'", "permissions[0]", "Object missing required field `user`"),
        ("[[topic_permissions]]\nuser = 'guest'", "topic_permissions[0]", "Object missing required field `exchange`"),
        ("[[policies]]\nname = 'p'\npattern = ''", "policies[0]", "Object missing required field `definition`"),
        (
            "[[policies]]\nname = 'p'\npattern = ''\ndefinition = 5",
            "policies[0].definition",
            "Expected `object`, got `int`",
        ),
        (
            "[[policies]]\nname = 'p'\npattern = ''\ndefinition = {}\napply_to = 'all'",
            "policies[0]",
            "Object contains unknown field `apply_to`",
        ),
        (
            "[[operator_policies]]\nname = 'p'\npattern = ''\ndefinition = {}\npriority = 'x'",
            "operator_policies[0].priority",
            "Expected `int`, got `str`",
        ),
        ("[[parameters]]\nname = 'p'\nvalue = 1", "parameters[0]", "Object missing required field `component`"),
        ("global_parameters = 1", "global_parameters", "Expected `object`, got `int`"),
    ],
)
def test_bad_form_is_refused(text: str, place: str, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "leveret.toml"
    path.write_text(text)
    with pytest.raises(BadSetting) as caught:
        load(str(path), {}, {})
    assert str(caught.value) == f"bad setting {place} in {path}: {rule}"


POLICY = "name = 'p'\npattern = '{}'\ndefinition = {}\n"


@pytest.mark.parametrize(
    ("text", "place", "rule"),
    [
        # SPEC §7: what the broker refuses
        (
            "[[vhosts]]\nname = 'v'\ndefault_queue_type = 'stream'",
            "vhosts[0] (v)",
            "unsupported queue type 'stream'",
        ),
        (
            "[[vhosts]]\nname = 'v'\nlimits = { max-things = 1 }",
            "vhosts[0] (v)",
            'Unrecognised terms [{<<"max-things">>,1}] in limits',
        ),
        (
            "[[users]]\nname = 'u'\nlimits = { max-queues = 1 }",
            "users[0] (u)",
            'Unrecognised terms [{<<"max-queues">>,1}] in user-limits',
        ),
        ("[[users]]\nname = 'u'\npassword_hash = '!'", "users[0] (u)", "password_hash is not base64"),
        (
            "[[users]]\nname = 'u'\nhashing_algorithm = 'crc32'",
            "users[0] (u)",
            "unknown password hashing algorithm 'crc32'",
        ),
        ("[[permissions]]\nuser = 'nobody'", "permissions[0] (nobody)", "user 'nobody' not found"),
        ("[[permissions]]\nuser = 'guest'\nvhost = 'v'", "permissions[0] (guest)", "vhost 'v' not found"),
        (
            "[[permissions]]\nuser = 'guest'\n[[permissions]]\nuser = 'guest'\nread = '('",
            "permissions[1] (guest)",
            "invalid regular expression: missing ): (",
        ),
        (
            "[[topic_permissions]]\nuser = 'guest'\nexchange = 't'\nwrite = '['",
            "topic_permissions[0] (guest)",
            "invalid regular expression: missing ]: [",
        ),
        ("[[policies]]\n" + POLICY.format("", "{}"), "policies[0] (p)", "no policy provided"),
        (
            "[[policies]]\n" + POLICY.format("*", "{ max-length = 1 }"),
            "policies[0] (p)",
            "pattern should be regular expression but is invalid: no argument for repetition operator: *",
        ),
        (
            "[[policies]]\n" + POLICY.format("", "{ max-length = -1 }"),
            "policies[0] (p)",
            "-1 is not a valid maximum length",
        ),
        (
            "[[policies]]\nvhost = 'v'\n" + POLICY.format("", "{ max-length = 1 }"),
            "policies[0] (p)",
            "vhost 'v' not found",
        ),
        (
            "[[operator_policies]]\n" + POLICY.format("", "{ dead-letter-exchange = 'x' }"),
            "operator_policies[0] (p)",
            '[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings',
        ),
        (
            "[[parameters]]\ncomponent = 'federation'\nname = 'f'\nvalue = 1",
            "parameters[0] (f)",
            "component federation not found",
        ),
        (
            "[[parameters]]\ncomponent = 'vhost-limits'\nname = 'limits'\nvalue = 5",
            "parameters[0] (limits)",
            "limits not a list 5",
        ),
    ],
)
def test_bad_definition_is_refused(text: str, place: str, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "leveret.toml"
    path.write_text(text)
    config = load(str(path), {}, {})
    with pytest.raises(BadDefinition) as caught:
        configured_broker(config)
    assert (caught.value.place, caught.value.rule, str(caught.value)) == (place, rule, f"{place}: {rule}")


def test_definitions_do_not_come_from_the_environment() -> None:
    """SPEC §7: a table does not fit a variable."""
    assert load(None, {}, {"LEVERET_USERS": "[]"}).users == []
