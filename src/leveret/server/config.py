"""Settings, from a TOML file, LEVERET_* variables and flags; flags first, then variables, then the file."""

import os
import platform
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from leveret.auth.http_backend import HttpBackendSettings
from leveret.auth.oauth2_settings import OAuth2Settings
from leveret.broker.node_limit import NodeLimits
from leveret.broker.pages import Sizes
from leveret.broker.password import ARGON2ID, SHA256, SHA512
from leveret.broker.patterns import PATTERN_MAX
from leveret.broker.seal import BadSeal, Seal
from leveret.broker.settings import Settings
from leveret.definitions.settings import Definitions
from leveret.server.alarms import memory_limit
from leveret.server.cluster_settings import ClusterSettings
from leveret.server.proxy_protocol import Networks, networks_of
from leveret.server.tls_settings import TlsSettings

PREFIX = "LEVERET_"
# In the environment, settings of the table tls are called so.
TLS_PREFIX = "tls_"

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]

# 0 is without limit.
Limit = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]

HASHINGS = {"sha256": SHA256, "sha512": SHA512, "argon2id": ARGON2ID}

# Flags, and what they are called in the setting `cluster`.
CLUSTER_FLAGS = {"cluster": "name", "node": "node", "join": "join", "secret_file": "secret_file"}

# What part of `memory_watermark` queues with consumers may have beyond their windows, at most.
SHARED_PART = 16
# And what room clients may have for large bodies that are still to come, all together.
RESERVED_PART = 8


class Config(Definitions, forbid_unknown_fields=True, frozen=True):
    """Everything that can be set; vhosts, users, rights and policies too."""

    host: str = "127.0.0.1"
    port: Port = 5672
    management: bool = True
    management_port: Port = 15672
    prometheus_port: Port = 15692
    management_request_timeout: Milliseconds = 10_000
    management_idle_timeout: Milliseconds = 60_000
    management_path_prefix: Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9._~-]+)*$")] = ""
    management_cors_origins: str = ""
    management_hsts: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 31_536_000
    data_dir: str = "leveret-data"
    storage: Literal["disk", "memory"] = "disk"
    sync: Literal["always", "os"] = "always"
    deliver: Literal["at-once", "synced"] = "at-once"
    accept_loss: bool = False
    segment_size: Annotated[int, msgspec.Meta(ge=1 << 16, le=1 << 30)] = 64 << 20
    window_count: Annotated[int, msgspec.Meta(ge=2, le=1 << 24)] = 16_384
    window_size: Annotated[int, msgspec.Meta(ge=1 << 10, le=1 << 40)] = 16 << 20
    page_count: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)] = 2048
    page_size: Annotated[int, msgspec.Meta(ge=1, le=1 << 30)] = 2 << 20
    shared_window_size: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 256 << 20
    memory_watermark: Annotated[float, msgspec.Meta(ge=0, le=1 << 50)] = 0.6
    disk_free_limit: Annotated[int, msgspec.Meta(ge=0, le=1 << 50)] = 50_000_000
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    channel_max: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 2047
    frame_max: Annotated[int, msgspec.Meta(ge=4096, le=16 << 20)] = 131_072
    heartbeat: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 60
    max_message_size: Annotated[int, msgspec.Meta(ge=1, le=512 << 20)] = 128 << 20
    prefetch_size: Literal["honour", "refuse"] = "honour"
    consumer_timeout: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 1_800_000
    unknown_exchange: Literal["refuse", "drop"] = "refuse"
    expiration: Literal["ttl", "epoch"] = "ttl"
    load_definitions: str = ""
    skip_unsupported: bool = False
    track_auth_attempt_source: bool = False
    event_exchange: bool = False
    secrets_key_file: str = ""
    proxy_protocol_from: str = ""
    connection_max: Limit = 0
    connection_max_per_address: Limit = 0
    queue_max: Limit = 0
    exchange_max: Limit = 0
    binding_max_per_exchange: Limit = 0
    consumer_max_per_channel: Limit = 0
    pattern_length_max: Annotated[int, msgspec.Meta(ge=1, le=PATTERN_MAX)] = PATTERN_MAX
    management_body_max: Annotated[int, msgspec.Meta(ge=1, le=1 << 30)] = 20 << 20
    management_head_max: Annotated[int, msgspec.Meta(ge=512, le=1 << 20)] = 65_536
    management_requests_per_second: Limit = 0
    login_failures: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 20
    password_hashing: Literal["sha256", "sha512", "argon2id"] = "sha256"
    password_length_min: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    tls: TlsSettings = TlsSettings()
    oauth2: OAuth2Settings = OAuth2Settings()
    auth_http: HttpBackendSettings = HttpBackendSettings()
    cluster: ClusterSettings | None = None

    @property
    def cors_origins(self) -> tuple[str, ...]:
        """The origins whose pages may use the API."""
        return tuple(self.management_cors_origins.replace(",", " ").split())

    @property
    def proxies(self) -> Networks:
        """Who says by the PROXY protocol whose connection it is."""
        return networks_of(self.proxy_protocol_from)

    def __post_init__(self) -> None:
        try:
            networks_of(self.proxy_protocol_from)
        except ValueError as error:
            raise ValueError(f"no addresses: {error}") from None

    def settings(self) -> Settings:
        """What the model and the protocol need of it."""
        settings = Settings()
        settings.channel_max = self.channel_max
        settings.frame_max = self.frame_max
        settings.heartbeat_s = self.heartbeat
        settings.max_message_size = self.max_message_size
        settings.refuse_prefetch_size = self.prefetch_size == "refuse"
        settings.deliver_synced = self.deliver == "synced"
        settings.consumer_timeout_ms = self.consumer_timeout
        settings.drop_to_unknown_exchange = self.unknown_exchange == "drop"
        settings.epoch_expiration = self.expiration == "epoch"
        settings.track_auth_attempt_source = self.track_auth_attempt_source
        settings.login_failures = self.login_failures
        settings.password_hashing = HASHINGS[self.password_hashing]
        settings.password_length_min = self.password_length_min
        settings.limits = NodeLimits(
            connections=self.connection_max,
            connections_of_address=self.connection_max_per_address,
            queues=self.queue_max,
            exchanges=self.exchange_max,
            bindings_of_exchange=self.binding_max_per_exchange,
            consumers_of_channel=self.consumer_max_per_channel,
            pattern_length=self.pattern_length_max,
        )
        settings.certificate_login = (
            self.tls.ssl_cert_login_from,
            self.tls.ssl_cert_login_san_type,
            self.tls.ssl_cert_login_san_index,
        )
        settings.seal = Seal(_key_in(self.secrets_key_file) if self.secrets_key_file else None)
        memory = memory_limit(self.memory_watermark)
        settings.reserved_size_max = memory // RESERVED_PART
        shared = min(self.shared_window_size, memory // SHARED_PART)
        settings.sizes = Sizes(self.window_count, self.window_size, self.page_count, self.page_size, shared)
        settings.node_name = f"leveret@{platform.node() or 'localhost'}"
        if self.cluster is not None:
            settings.cluster_name = self.cluster.name
            settings.node_name = self.cluster.node or settings.node_name
        return settings


# Not the names of servers, which are a table too.
TLS_NAMES = set(TlsSettings.__struct_fields__) - {"names"}


def _key_in(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise BadSeal(f"cannot read {file}: {error.strerror}") from None


class BadSetting(Exception):
    """A setting that cannot be used; the text names it and where it came from."""


def load(file: str | None, flags: dict[str, Any], environment: dict[str, str] | None = None) -> Config:
    """Read the settings or raise BadSetting."""
    environment = dict(os.environ) if environment is None else environment
    file = file_of(file, environment)
    values: dict[str, object] = {}
    in_file = _from_file(file)
    flags = with_cluster(flags, in_file.get("cluster"))
    for source, found in (
        (file or "", in_file),
        ("the environment", _from_environment(environment)),
        ("the command line", flags),
    ):
        for name, value in found.items():
            _check(source, name, value)
            # A table is added to, not replaced.
            values[name] = _merged(values.get(name), value) if name == "tls" else value
    return msgspec.convert(values, Config, strict=False)


def from_values(values: dict[str, Any], source: str) -> Config:
    """Settings that a program has, and nothing else; or BadSetting, which says where they came from."""
    for name, value in values.items():
        _check(source, name, value)
    return msgspec.convert(values, Config, strict=False)


def with_cluster(flags: dict[str, object], in_file: object) -> dict[str, object]:
    """Flags of which those about the cluster are one setting, with what the file has of it."""
    given = {CLUSTER_FLAGS[name]: value for name, value in flags.items() if name in CLUSTER_FLAGS}
    others = {name: value for name, value in flags.items() if name not in CLUSTER_FLAGS}
    if given:
        others["cluster"] = {**(in_file if isinstance(in_file, dict) else {}), **given}
    return others


def file_of(flag: str | None, environment: Mapping[str, str]) -> str | None:
    """The file that is read: the one that the flag names, or else the variable."""
    return flag or environment.get(PREFIX + "CONFIG")


def _check(source: str, name: str, value: object) -> None:
    try:
        msgspec.convert({name: value}, Config, strict=False)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at ")
        if name in Definitions.__struct_fields__:
            # Tables are long; the place in them says more.
            raise BadSetting(f"bad setting {place.strip('`').removeprefix('$.')} in {source}: {text}") from None
        if name == "tls":
            raise BadSetting(f"bad setting {_of_table(place, value)} in {source}: {text}") from None
        raise BadSetting(f"bad setting {name} = {value!r} in {source}: {text}") from None


def _merged(before: object, value: object) -> object:
    """A table with more in it."""
    return before | value if isinstance(before, dict) and isinstance(value, dict) else value


def _of_table(place: str, value: object) -> str:
    """A setting of a table, and what it was to be."""
    name = place.strip("`").removeprefix("$.")
    last = name.rpartition(".")[2]
    return f"{name} = {value[last]!r}" if isinstance(value, dict) and last in value else name


def _from_file(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSetting(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"{file} is not TOML: {error}") from None


def _from_environment(environment: dict[str, str]) -> dict[str, object]:
    known = set(Config.__struct_fields__) - {*Definitions.__struct_fields__, "tls", "oauth2", "auth_http", "cluster"}
    found: dict[str, object] = {}
    tls: dict[str, str] = {}
    for variable, value in environment.items():
        name = variable.removeprefix(PREFIX).lower()
        # Kubernetes sets LEVERET_PORT=tcp://… and others for a service called leveret: not meant for us.
        if not variable.startswith(PREFIX) or value.startswith("tcp://"):
            continue
        if name in known:
            found[name] = value
        elif name.startswith(TLS_PREFIX) and name.removeprefix(TLS_PREFIX) in TLS_NAMES:
            tls[name.removeprefix(TLS_PREFIX)] = value
    return found | ({"tls": tls} if tls else {})
