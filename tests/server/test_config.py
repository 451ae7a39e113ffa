"""Settings: where they come from, which of them wins, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from leveret.definitions.settings import Definitions
from leveret.server.cluster_settings import ClusterSettings
from leveret.server.config import BadSetting, Config, from_values, load
from leveret.server.tls_settings import NamedCertificate, TlsSettings

# Every setting, with a value that is not its default, as text, and what becomes of it.
GIVEN: dict[str, tuple[str, object]] = {
    "host": ("::1", "::1"),
    "port": ("0", 0),
    "management_port": ("15673", 15673),
    "prometheus_port": ("15693", 15693),
    "management_request_timeout": ("1000", 1000),
    "management_idle_timeout": ("2000", 2000),
    "management_path_prefix": ("/ops/broker", "/ops/broker"),
    "data_dir": ("/tmp/data", "/tmp/data"),
    "storage": ("memory", "memory"),
    "sync": ("os", "os"),
    "accept_loss": ("true", True),
    "segment_size": ("65536", 65536),
    "window_count": ("8", 8),
    "window_size": ("65536", 65536),
    "shared_window_size": ("65536", 65536),
    "page_count": ("2", 2),
    "page_size": ("4096", 4096),
    "memory_watermark": ("0.5", 0.5),
    "disk_free_limit": ("1000", 1000),
    "log_level": ("debug", "debug"),
    "channel_max": ("100", 100),
    "frame_max": ("4096", 4096),
    "heartbeat": ("0", 0),
    "max_message_size": ("1000", 1000),
    "prefetch_size": ("refuse", "refuse"),
    "consumer_timeout": ("1000", 1000),
    "unknown_exchange": ("drop", "drop"),
    "expiration": ("epoch", "epoch"),
    "deliver": ("synced", "synced"),
    "management": ("false", False),
    "load_definitions": ("/etc/definitions.json", "/etc/definitions.json"),
    "skip_unsupported": ("true", True),
    "track_auth_attempt_source": ("true", True),
    "management_cors_origins": ("https://a.example, https://b.example", "https://a.example, https://b.example"),
    "management_hsts": ("0", 0),
    "event_exchange": ("true", True),
    "secrets_key_file": ("/etc/leveret.key", "/etc/leveret.key"),
    "proxy_protocol_from": ("10.0.0.0/8, ::1", "10.0.0.0/8, ::1"),
    "connection_max": ("5", 5),
    "connection_max_per_address": ("5", 5),
    "queue_max": ("5", 5),
    "exchange_max": ("5", 5),
    "binding_max_per_exchange": ("5", 5),
    "consumer_max_per_channel": ("5", 5),
    "pattern_length_max": ("5", 5),
    "management_body_max": ("5", 5),
    "management_head_max": ("512", 512),
    "management_requests_per_second": ("5", 5),
    "login_failures": ("5", 5),
    "password_hashing": ("sha512", "sha512"),
    "password_length_min": ("8", 8),
}

BAD: list[tuple[str, object]] = [
    ("port", -1),
    ("port", 65_536),
    ("port", "http"),
    ("port", ""),
    ("port", 1.5),
    ("port", True),
    ("management_port", "x"),
    ("prometheus_port", 65_536),
    ("host", 5),
    ("host", ["127.0.0.1"]),
    ("data_dir", 1),
    ("load_definitions", 1),
    ("storage", "tape"),
    ("sync", "never"),
    ("deliver", "never"),
    ("management", "maybe"),
    ("management_request_timeout", 0),
    ("management_idle_timeout", "long"),
    ("management_path_prefix", "ops/"),
    ("segment_size", 1),
    ("window_count", 1),
    ("window_count", (1 << 24) + 1),
    ("window_size", 1023),
    ("shared_window_size", -1),
    ("page_count", 0),
    ("page_count", (1 << 16) + 1),
    ("page_size", 0),
    ("memory_watermark", -0.1),
    ("memory_watermark", "much"),
    ("memory_watermark", 1 << 51),
    ("disk_free_limit", -1),
    ("disk_free_limit", 1.5),
    ("log_level", "loud"),
    ("log_level", "DEBUG"),
    ("channel_max", 0),
    ("channel_max", 65_536),
    ("frame_max", 4095),
    ("frame_max", (16 << 20) + 1),
    ("heartbeat", -1),
    ("heartbeat", 65_536),
    ("max_message_size", 0),
    ("max_message_size", (512 << 20) + 1),
    ("prefetch_size", "maybe"),
    ("consumer_timeout", -1),
    ("unknown_exchange", "maybe"),
    ("expiration", "never"),
    ("track_auth_attempt_source", "maybe"),
    ("management_hsts", -1),
    ("proxy_protocol_from", "somewhere"),
    ("proxy_protocol_from", "10.0.0.1/8"),
    ("connection_max", -1),
    ("pattern_length_max", 4097),
    ("management_head_max", 511),
    ("login_failures", -1),
    ("password_hashing", "md5"),
    ("password_length_min", 0),
    ("no_such_setting", 1),
]


def toml(values: dict[str, Any]) -> str:
    return "".join(f"{name} = {literal(value)}\n" for name, value in values.items())


def literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float | list) else f'"{value}"'


def test_every_setting_is_tried_here() -> None:
    # These tables have tests of their own, here and below.
    tables = {"tls", "oauth2", "auth_http", "cluster"}
    assert set(GIVEN) == set(Config.__struct_fields__) - {*Definitions.__struct_fields__} - tables


def test_cluster_is_a_table_of_the_file_and_flags_win_over_it(tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text('[cluster]\nname = "c"\nnode = "n1"\njoin = ["h:1", "[::1]:2"]\nsecret_file = "s"\nport = 5\n')
    found = load(str(file), {}, {}).cluster
    assert found == ClusterSettings("c", "n1", ["h:1", "[::1]:2"], "s", port=5)
    flags = {"cluster": "d", "join": ["g:3"], "port": "7"}
    config = load(str(file), flags, {})
    assert config.cluster == ClusterSettings("d", "n1", ["g:3"], "s", port=5)
    assert config.port == 7
    assert config.settings().node_name == "n1"
    assert config.settings().cluster_name == "d"
    assert load(None, {}, {}).cluster is None
    assert load(None, {}, {"LEVERET_CLUSTER": "x"}).cluster is None
    assert load(None, {"cluster": "c"}, {}).settings().node_name.startswith("leveret@")


@pytest.mark.parametrize(
    "values",
    [{}, {"name": 5}, {"name": "c", "join": ["nowhere"]}, {"name": "c", "port": 65_536}, {"name": "c", "more": 1}],
    ids=str,
)
def test_bad_cluster_is_refused_by_name(values: dict[str, object]) -> None:
    with pytest.raises(BadSetting, match="bad setting cluster"):
        from_values({"cluster": values}, "a program")


def test_defaults_are_rabbitmqs() -> None:
    config = load(None, {}, {})
    assert config == Config()
    assert (config.host, config.port, config.management_port) == ("127.0.0.1", 5672, 15672)
    assert (config.channel_max, config.frame_max, config.heartbeat) == (2047, 131_072, 60)
    assert config.max_message_size == 128 << 20


@pytest.mark.parametrize("name", GIVEN)
def test_setting_from_each_source(name: str, tmp_path: Path) -> None:
    text, value = GIVEN[name]
    assert value != getattr(Config(), name)
    file = tmp_path / "leveret.toml"
    file.write_text(toml({name: value}))
    assert getattr(load(str(file), {}, {}), name) == value
    assert getattr(load(None, {}, {"LEVERET_CONFIG": str(file)}), name) == value
    assert getattr(load(None, {}, {f"LEVERET_{name.upper()}": text}), name) == value
    assert getattr(load(None, {name: text}, {}), name) == value


def test_flags_win_over_variables_and_those_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text(toml({"port": 1, "heartbeat": 1, "channel_max": 1}))
    environment = {"LEVERET_PORT": "2", "LEVERET_HEARTBEAT": "2"}
    config = load(str(file), {"port": "3"}, environment)
    assert (config.port, config.heartbeat, config.channel_max) == (3, 2, 1)


def test_file_named_by_the_flag_wins_over_the_one_named_by_the_variable(tmp_path: Path) -> None:
    for port in (1, 2):
        (tmp_path / f"{port}.toml").write_text(toml({"port": port}))
    config = load(str(tmp_path / "1.toml"), {}, {"LEVERET_CONFIG": str(tmp_path / "2.toml")})
    assert config.port == 1


@pytest.mark.parametrize(("name", "value"), BAD, ids=lambda value: str(value) or "empty")
def test_bad_setting_in_the_file_is_refused_by_name(name: str, value: object, tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text(toml({name: value}))
    with pytest.raises(BadSetting) as caught:
        load(str(file), {}, {})
    assert str(caught.value).startswith(f"bad setting {name} = {value!r} in {file}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["the environment", "the command line"])
def test_bad_setting_elsewhere_is_refused_by_name(source: str) -> None:
    flags = {"port": "99999"} if source == "the command line" else {}
    environment = {"LEVERET_PORT": "99999"} if source == "the environment" else {}
    with pytest.raises(BadSetting, match=f"^bad setting port = '99999' in {source}: "):
        load(None, flags, environment)


def test_bad_setting_is_refused_even_if_a_better_one_wins(tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text(toml({"port": -1}))
    with pytest.raises(BadSetting, match="bad setting port = -1"):
        load(str(file), {"port": "5672"}, {})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"port = = 1", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"port 1", "is not TOML"),
        (b"[port]\nx = 1", "bad setting port"),
        (b"[listener]\nport = 1", "bad setting listener"),
    ],
)
def test_bad_file_is_refused(content: bytes, text: str, tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_bytes(content)
    with pytest.raises(BadSetting, match=text):
        load(str(file), {}, {})


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"cannot read .*: No such file or directory"):
        load(str(tmp_path / "none.toml"), {}, {})
    with pytest.raises(BadSetting, match=r"cannot read .*: Is a directory"):
        load(str(tmp_path), {}, {})


def test_variables_of_others_are_left_alone() -> None:
    environment = {
        "LEVERET_PORT": "tcp://10.0.0.1:5672",
        "LEVERET_SERVICE_HOST": "10.0.0.1",
        "PORT": "1",
        "LEVERET_PURE": "1",
    }
    assert load(None, {}, environment) == Config()


def test_settings_reach_the_model() -> None:
    config = Config(channel_max=1, frame_max=5000, heartbeat=2, max_message_size=3, prefetch_size="refuse")
    settings = config.settings()
    assert (settings.channel_max, settings.frame_max, settings.heartbeat_s) == (1, 5000, 2)
    assert settings.max_message_size == 3
    assert settings.refuse_prefetch_size
    assert not Config().settings().refuse_prefetch_size


def test_choices_reach_the_model() -> None:
    """SPEC §6.5 acknowledgement timeout, §12 unknown_exchange and expiration: settings"""
    settings = Config(consumer_timeout=5, unknown_exchange="drop", expiration="epoch").settings()
    assert (settings.consumer_timeout_ms, settings.drop_to_unknown_exchange, settings.epoch_expiration) == (5, True, True)
    settings = Config().settings()
    assert (settings.consumer_timeout_ms, settings.drop_to_unknown_exchange, settings.epoch_expiration) == (
        1_800_000,
        False,
        False,
    )
    assert settings.node_name.startswith("leveret@")


# TLS

# Each setting of the table, as text, and what becomes of it.
TLS: dict[str, tuple[str, object]] = {
    "port": ("0", 0),
    "management_port": ("1", 1),
    "prometheus_port": ("2", 2),
    "management": ("false", False),
    "only": ("true", True),
    "certificate": ("/c", "/c"),
    "key": ("/k", "/k"),
    "ca": ("/ca", "/ca"),
    "clients": ("asked", "asked"),
    "ssl_cert_login_from": ("common_name", "common_name"),
    "ssl_cert_login_san_type": ("email", "email"),
    "ssl_cert_login_san_index": ("3", 3),
    "handshake_timeout": ("100", 100),
    "handshakes": ("7", 7),
}


def test_every_setting_of_tls_is_tried_here() -> None:
    assert set(TLS) == set(TlsSettings.__struct_fields__) - {"names"}


@pytest.mark.parametrize("name", TLS)
def test_setting_of_tls_in_each_place(tmp_path: Path, name: str) -> None:
    text, value = TLS[name]
    file = tmp_path / "leveret.toml"
    file.write_text("[tls]\n" + toml({name: value}))
    assert getattr(load(str(file), {}, {}).tls, name) == value
    assert getattr(load(None, {}, {f"LEVERET_TLS_{name.upper()}": text}).tls, name) == value
    assert not TlsSettings().wanted
    assert load(None, {}, {f"LEVERET_TLS_{name.upper()}": text}).tls.wanted


def test_environment_adds_to_the_table(tmp_path: Path) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text('[tls]\nport = 1\ncertificate = "/c"\n[tls.names."a.example"]\ncertificate = "/a"\n')
    tls = load(str(file), {}, {"LEVERET_TLS_PORT": "2"}).tls
    assert (tls.port, tls.certificate, tls.names) == (2, "/c", {"a.example": NamedCertificate("/a")})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('port = "x"', "bad setting tls.port = 'x' in FILE: "),
        ("port = 65536", "bad setting tls.port = 65536 in FILE: "),
        ('clients = "maybe"', "bad setting tls.clients = 'maybe' in FILE: "),
        ("handshakes = 0", "bad setting tls.handshakes = 0 in FILE: "),
        ("handshake_timeout = 0", "bad setting tls.handshake_timeout = 0 in FILE: "),
        ('ssl_cert_login_from = "password"', "bad setting tls.ssl_cert_login_from = 'password' in FILE: "),
        ('ssl_cert_login_san_type = "other_name"', "bad setting tls.ssl_cert_login_san_type = 'other_name' in FILE: "),
        ("ssl_cert_login_san_index = -1", "bad setting tls.ssl_cert_login_san_index = -1 in FILE: "),
        ('certifcate = "x"', "bad setting tls in FILE: Object contains unknown field `certifcate`"),
        ('names = { "a" = { key = "x" } }', "bad setting tls.names[...] in FILE: "),
    ],
)
def test_bad_setting_of_tls_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "leveret.toml"
    file.write_text(f"[tls]\n{text}\n")
    with pytest.raises(BadSetting) as refused:
        load(str(file), {}, {})
    assert str(refused.value).startswith(said.replace("FILE", str(file)))


def test_bad_setting_of_tls_in_the_environment_is_named() -> None:
    with pytest.raises(BadSetting, match=r"bad setting tls\.port = 'x' in the environment: "):
        load(None, {}, {"LEVERET_TLS_PORT": "x"})
