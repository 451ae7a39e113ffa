"""TLS of a node: what all of its listeners with TLS share."""

import asyncio
from collections.abc import Callable

from leveret.server.certificates import Certificates, Watch
from leveret.server.handshakes import Handshakes
from leveret.server.tls_settings import TlsSettings
from leveret.server.tls_transport import CipherBuffer, TlsTransport

Factory = Callable[[], asyncio.BaseProtocol]


class Tls:
    """The certificates in use, the handshakes in progress, and the buffer that sockets are read into."""

    def __init__(self, settings: TlsSettings) -> None:
        """BadTls if the settings, or the files they name, cannot be used."""
        self.certificates = Certificates(settings)
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch: Watch | None = None

    def start(self) -> None:
        """On the running loop; `over` makes sense from now on."""
        self._loop = asyncio.get_running_loop()
        self._buffer = CipherBuffer()
        self._handshakes = Handshakes(self._loop, self._settings.handshakes, self._settings.handshake_timeout / 1000)
        self._watch = Watch(self._loop, self.certificates)
        self._watch.start()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def over(self, factory: Factory) -> Factory:
        """A factory of the same protocols, each within TLS."""
        loop = self._loop
        assert loop is not None
        return lambda: TlsTransport(factory, self.certificates.context, self._handshakes, self._buffer, loop)
