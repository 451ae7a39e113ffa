"""AMQP URIs: what they say, what is wrong with them, and what of them may be shown."""

from dataclasses import asdict
from typing import Any

import pytest

from leveret.uri import BadUri, parse_uri, redacted, without_credentials

HERE: dict[str, Any] = {"host": None, "user": None, "password": None, "vhost": "/"}
THERE: dict[str, Any] = {"host": "h", "port": 5672, "user": "guest", "password": "guest", "vhost": "/"}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("amqp://", HERE),
        ("amqp:///", HERE | {"vhost": ""}),
        ("amqp:///%2F", HERE),
        ("amqp:///a%20b", HERE | {"vhost": "a b"}),
        ("amqp:///%C3%A9", HERE | {"vhost": "é"}),
        ("amqp://u@/v", HERE | {"user": "u", "vhost": "v"}),
        ("amqp://u:p@", HERE | {"user": "u", "password": "p"}),
        ("amqp:", HERE),
        ("amqp://h", THERE),
        ("AMQP://h", THERE),
        ("amqp://h:1234/v", THERE | {"port": 1234, "vhost": "v"}),
        ("amqp://h/", THERE | {"vhost": ""}),
        ("amqp://u:p%40%3A@h", THERE | {"user": "u", "password": "p@:"}),
        ("amqp://u@h", THERE | {"user": "u"}),
        ("amqp://[::1]:99/v", THERE | {"host": "::1", "port": 99, "vhost": "v"}),
        ("amqp://[::1]", THERE | {"host": "::1"}),
        ("amqps://h", THERE | {"scheme": "amqps", "port": 5671}),
        ("amqp://h", {"heartbeat_s": 10, "timeout_s": 60.0, "mechanism": "plain"}),
        ("amqp://h?heartbeat=5&connection_timeout=1500", {"heartbeat_s": 5, "timeout_s": 1.5}),
        ("amqp://h?heartbeat=0&connection_timeout=999999999", {"heartbeat_s": 0, "timeout_s": 600.0}),
        ("amqp://h?heartbeat=-1&unknown=x&flag", {"heartbeat_s": 0}),
        ("amqp://h?auth_mechanism=EXTERNAL", {"mechanism": "external"}),
        (
            "amqps://h?cacertfile=/a%20b&verify=verify_peer&password=x",
            {"tls": {"cacertfile": "/a b", "verify": "verify_peer", "password": "x"}, "password": "guest"},
        ),
    ],
)
def test_what_a_uri_says(text: str, facts: dict[str, Any]) -> None:
    """SPEC §9.8: URIs as RabbitMQ reads them."""
    found = asdict(parse_uri(text))
    assert {name: found[name] for name in facts} == facts
    assert parse_uri(text).local == (found["host"] is None)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("", "{unable_to_parse_uri,no_scheme}"),
        ("no uri", "{unable_to_parse_uri,no_scheme}"),
        ("http://h", '{unexpected_uri_scheme,"http"}'),
        ("amqp://:5672", "port_requires_host"),
        ("amqps://", "tls_requires_host"),
        ("amqp://h:0", "{port_out_of_range,0}"),
        ("amqp://h:65536", "{port_out_of_range,65536}"),
        ("amqp://h:x", '{unable_to_parse_uri,{malformed_uri,"amqp://h:x",badarg}}'),
        ("amqp://[::1", '{unable_to_parse_uri,{invalid_port,""}}'),
        ("amqp://[::1]x", '{unable_to_parse_uri,{invalid_port,"x"}}'),
        ("amqp://h/a/b", '{invalid_vhost,"a/b"}'),
        ("amqp:path", '{invalid_vhost,"path"}'),
        ("amqp://h/%4", '{unterminated_entity,"%4"}'),
        ("amqp://h/%zz", '{unterminated_entity,"%zz"}'),
        ("amqp://h/%ff", "invalid_utf8"),
        ("amqp://h?heartbeat=x", '{invalid_amqp_params_parameter,heartbeat,"x",{not_an_integer,"x"}}'),
        ("amqp://h?username=x", '{parameter_unconfigurable_in_query,username,"x"}'),
        ("amqp://h?auth_mechanism=scram", '{unsupported_auth_mechanism,"scram"}'),
    ],
)
def test_what_is_wrong_with_a_uri(text: str, term: str) -> None:
    """SPEC §9.8: bad URIs."""
    with pytest.raises(BadUri) as caught:
        parse_uri(text)
    assert str(caught.value) == term


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amqp://", "amqp://"),
        ("amqp:///v", "amqp:///v"),
        ("amqp://u:p@h:1/v?password=secret", "amqp://h:1/v"),
        ("amqps://u:p@[::1]:1?keyfile=x", "amqps://[::1]:1"),
        ("http://u:p@h/x", ""),
        ("nothing", ""),
    ],
)
def test_what_may_be_shown(text: str, shown: str) -> None:
    """SPEC §9.8: no credentials in what is shown."""
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amqp://h:x", "amqp://h:x"),
        ("amqp://u:secret@h:x/v", "amqp://h:x/v"),
        ("amqp://u:sec/r@et@h", "amqp://h"),
        ("amqp://u:1/secret/x@h", "amqp://h"),
        ("amqp://h:x?password=secret&a=b", "amqp://h:x?password=&a=b"),
    ],
)
def test_what_is_told_of_a_bad_one(text: str, shown: str) -> None:
    """SPEC §9.8: no credentials in faults."""
    assert redacted(text) == shown
    with pytest.raises(BadUri) as caught:
        parse_uri(text)
    assert "secret" not in str(caught.value)
