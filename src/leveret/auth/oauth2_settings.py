"""The settings of OAuth 2: the table `[oauth2]` of the settings file."""

from typing import Annotated

import msgspec

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


class OAuth2Settings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """There is OAuth 2 if `resource_server_id` is set. RabbitMQ's names and defaults, where it has them."""

    # Who the broker is: the audience of its tokens.
    resource_server_id: str = ""
    issuer: str = ""
    # A URL, or a file.
    jwks: str = ""
    # With which scopes for this broker begin; without one, the id with a dot.
    scope_prefix: str | None = None
    additional_scopes_key: str = ""
    scope_aliases: dict[str, list[str]] = {}
    preferred_username_claims: tuple[str, ...] = ("sub", "client_id")
    # How long keys are kept (s), and after which time an unknown one is asked for again.
    cache: Annotated[float, msgspec.Meta(ge=0.1, le=1 << 20)] = 300.0
    retry: Annotated[float, msgspec.Meta(ge=0.01, le=1 << 20)] = 10.0

    @property
    def wanted(self) -> bool:
        return bool(self.resource_server_id)

    @property
    def prefix(self) -> str:
        return f"{self.resource_server_id}." if self.scope_prefix is None else self.scope_prefix
