"""What tests of TLS share: settings in the environment, a client with TLS, and a broker for it."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.certificates import Authority, Pair
from tests.server.support import Client

from leveret.server.config import Config
from leveret.server.tls_settings import TlsSettings

# All on free ports.
PORTS: dict[str, Any] = {"port": 0, "management_port": 0, "prometheus_port": 0}


class Trust:
    """An authority, and what it has signed for a broker and a client."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.server = self.authority.issue("server")
        self.client = self.authority.issue("client")
        self.ca = self.authority.certificate

    def settings(self, **more: Any) -> TlsSettings:
        own = {"certificate": str(self.server.certificate), "key": str(self.server.key), "ca": str(self.ca)}
        return TlsSettings(**{**PORTS, **own, **more})

    def config(self, **more: Any) -> Config:
        return Config(port=0, storage="memory", tls=self.settings(**more))

    def environment(self, **more: Any) -> dict[str, str]:
        """The same settings, for a process."""
        settings = self.settings(**more)
        names = {"certificate", "key", "ca", *PORTS, *more}
        return {f"LEVERET_TLS_{name.upper()}": str(getattr(settings, name)) for name in names}

    def context(self, own: Pair | None = None, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        """A client's TLS, which trusts the authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.ca)
        if own is not None:
            context.load_cert_chain(*own)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return context


class TlsClient(Client):
    """Frames on a socket with TLS."""

    def __init__(
        self,
        port: int,
        context: ssl.SSLContext,
        receive_buffer: int = 0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(port, receive_buffer, **({} if clock is None else {"clock": clock}))
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        except BaseException:
            self.socket.close()
            raise
