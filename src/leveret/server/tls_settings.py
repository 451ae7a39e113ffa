"""The settings of TLS: the table `[tls]` of the settings file, `LEVERET_TLS_…` in the environment."""

from typing import Annotated, Literal

import msgspec

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class NamedCertificate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is shown to clients that ask for one name (SNI)."""

    certificate: str
    key: str = ""


class TlsSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """All of it; there is TLS if a certificate is set."""

    port: Port = 5671
    management_port: Port = 15671
    prometheus_port: Port = 15691
    # HTTP over TLS too; and nothing at all without.
    management: bool = True
    only: bool = False
    # Files. Without a key of its own, it is in the certificate's file.
    certificate: str = ""
    key: str = ""
    ca: str = ""
    names: dict[str, NamedCertificate] = {}
    clients: Literal["ignored", "asked", "required"] = "ignored"
    # RabbitMQ's names and values: what of a client's certificate is its user's name.
    ssl_cert_login_from: Literal["distinguished_name", "common_name", "subject_alternative_name"] = "distinguished_name"
    ssl_cert_login_san_type: Literal["dns", "ip", "email", "uri"] = "dns"
    ssl_cert_login_san_index: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    # How long a handshake may take (ms), and how many there may be at once.
    handshake_timeout: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] = 5_000
    handshakes: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] = 500

    @property
    def wanted(self) -> bool:
        """Whether anything of it is set: then all that is needed must be."""
        return self != TlsSettings()
