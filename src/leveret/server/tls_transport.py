"""One socket with TLS: a protocol to the event loop, and to whoever speaks inside of it a transport like any other.

  handshake   begins with the connection; each step is taken when `Handshakes` says, and the socket is not read before it
  open        the inner protocol is there: what is read is decrypted into its buffers, what it writes is encrypted at once
  refused     the client was told why it is, and has a moment to read that
  closed      what was written still goes out

(1) A connection has no buffers for what is on its way: all are read into one (`CipherBuffer`), and OpenSSL is given, and
    gives, a record at a time, as it keeps the memory of the largest it has had.
(2) What is to be sent is encrypted when it is written, so the socket's own buffer is all that waits: its size and its
    limits are true.
(3) While the inner protocol does not read, what was read already is kept as it came.

The loops' own TLS takes 256 KiB for each connection with asyncio, and sends none of the alerts that say why a client is
refused.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import cast

from leveret.server.handshakes import Handshakes
from leveret.server.tls_fault import handshake_fault

# A record of TLS has no more.
RECORD = 16 * 1024
READ_SIZE = 256 * 1024
# In which a client that is refused reads why.
REFUSAL_S = 1.0
HEAD_SIZE = 8
SHAKING, OPEN, REFUSED, CLOSED = range(4)

log = logging.getLogger("leveret.tls")

Octets = bytes | bytearray | memoryview


class CipherBuffer:
    """What all sockets with TLS are read into: one for the event loop, and nothing stays in it."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_SIZE))


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The owner of one client's socket; `factory` makes the protocol inside when the handshake is done."""

    __slots__ = (
        "_buffer",
        "_factory",
        "_handshakes",
        "_head",
        "_incoming",
        "_inner",
        "_kept",
        "_loop",
        "_outgoing",
        "_paused",
        "_plain",
        "_socket",
        "_state",
        "_timer",
        "_tls",
        "host",
    )

    _socket: asyncio.Transport

    def __init__(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        handshakes: Handshakes,
        buffer: CipherBuffer,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__()
        self._factory = factory
        self._handshakes = handshakes
        self._buffer = buffer
        self._loop = loop
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._state = SHAKING
        self._inner: asyncio.BaseProtocol | None = None
        # Whether the inner protocol is read into its own buffers.
        self._plain = False
        self._paused = False
        self._head = b""
        self._kept = b""
        self._timer: asyncio.TimerHandle | None = None
        self.host = ""

    # The loop's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if isinstance(peer, tuple) else ""
        self._timer = self._loop.call_later(self._handshakes.timeout_s, self._on_late)
        self._handshakes.begin(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.view if self._state == OPEN else self._buffer.view[:RECORD]

    def buffer_updated(self, nbytes: int) -> None:
        data = self._buffer.view[:nbytes]
        if self._state == OPEN:
            if self._kept:
                data = memoryview(self._kept + data)
                self._kept = b""
            self._take(data)
        elif self._state == SHAKING:
            if len(self._head) < HEAD_SIZE:
                self._head += bytes(data[:HEAD_SIZE])
            self._incoming.write(data)
            self._socket.pause_reading()
            self._handshakes.go_on(self)

    def eof_received(self) -> bool:
        if self._state == SHAKING:
            log.debug("%s: the client has left during the handshake", self._name)
        elif self._state == OPEN and isinstance(self._inner, asyncio.Protocol | asyncio.BufferedProtocol):
            self._inner.eof_received()
        return False

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = CLOSED
        self._handshakes.end(self)
        self._cancel_timer()
        inner, self._inner = self._inner, None
        self._kept = b""
        if inner is not None:
            inner.connection_lost(exc)

    # The handshake

    def step(self) -> None:
        """Go on with the handshake, as far as what has come allows."""
        if self._state != SHAKING or self._socket.is_closing():
            return
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            self._socket.resume_reading()
        except ssl.SSLError as error:
            self._refuse(handshake_fault(error, self._head))
        else:
            self._send()
            self._open()

    def give_way(self) -> None:
        """End, as others want to begin."""
        self._socket.abort()

    def _on_late(self) -> None:
        self._handshakes.tell(f"TLS handshakes that took longer than {self._handshakes.timeout_s:g} s", self.host)
        self._socket.abort()

    def _refuse(self, why: str) -> None:
        """Have the client read the alert; a socket that is closed with something unread in it would take that from it."""
        log.warning("%s: %s", self._name, why)
        self._state = REFUSED
        self._send()
        self._cancel_timer()
        self._timer = self._loop.call_later(REFUSAL_S, self._socket.abort)
        self._socket.write_eof()
        self._socket.resume_reading()

    def _open(self) -> None:
        self._state = OPEN
        self._head = b""
        self._cancel_timer()
        self._handshakes.end(self)
        self.set_protocol(self._factory())
        assert self._inner is not None
        self._inner.connection_made(self)
        if not self._paused:
            self._socket.resume_reading()
            # What came with the end of the handshake.
            self._take(memoryview(b""))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _name(self) -> str:
        names = (self._socket.get_extra_info(end) for end in ("peername", "sockname"))
        return " -> ".join(f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name) for name in names)

    # Reading

    def _take(self, data: memoryview) -> None:
        """Decrypt what was read, and hand it on."""
        try:
            rest = self._into_plain(data) if self._plain else self._into_buffers(data)
        except ssl.SSLError as error:
            log.warning("%s: the client has sent what is no TLS: %s", self._name, error.reason or error)
            self._send()
            self._socket.close()
            return
        if self._outgoing.pending:
            self._send()
        if self._state == OPEN and rest:
            self._kept = bytes(rest)

    def _into_buffers(self, data: memoryview) -> memoryview:
        """Have the inner protocol's buffers filled; what is left when it reads no more."""
        while self._state == OPEN and not self._paused:
            inner = cast(asyncio.BufferedProtocol, self._inner)
            room = cast(memoryview, inner.get_buffer(-1))
            size = len(room)
            filled = 0
            ended = False
            while filled < size:
                try:
                    got = self._tls.read(size - filled, room[filled:])
                except ssl.SSLWantReadError:
                    if not data:
                        break
                    self._incoming.write(data[:RECORD])
                    data = data[RECORD:]
                    continue
                if not got:
                    ended = True
                    break
                filled += cast(int, got)
            if filled:
                inner.buffer_updated(filled)
            if ended:
                self._on_goodbye()
            elif filled < size:
                break
        return data

    def _into_plain(self, data: memoryview) -> memoryview:
        """The same for one that takes bytes."""
        while self._state == OPEN and not self._paused:
            try:
                found = self._tls.read(RECORD)
            except ssl.SSLWantReadError:
                if not data:
                    break
                self._incoming.write(data[:RECORD])
                data = data[RECORD:]
                continue
            if found:
                cast(asyncio.Protocol, self._inner).data_received(found)
            else:
                self._on_goodbye()
        return data

    def _on_goodbye(self) -> None:
        """The client has said that it sends no more."""
        self.eof_received()
        self.close()

    def _go_on(self) -> None:
        """Hand on what was kept while nobody read."""
        if self._state == OPEN and not self._paused:
            kept, self._kept = self._kept, b""
            self._take(memoryview(kept))

    # Writing

    def _send(self) -> None:
        """Send what OpenSSL has to say."""
        if self._outgoing.pending and not self._socket.is_closing():
            self._socket.write(self._outgoing.read())

    def _encrypt(self, data: Octets) -> None:
        if self._state != OPEN or self._socket.is_closing():
            return
        records = []
        view = memoryview(data)
        try:
            for at in range(0, len(view), RECORD):
                self._tls.write(view[at : at + RECORD])
                records.append(self._outgoing.read())
        except ssl.SSLError as error:
            log.error("%s: cannot encrypt: %s", self._name, error)
            self._socket.abort()
            return
        self._socket.write(records[0]) if len(records) == 1 else self._socket.writelines(records)

    # As a transport

    def write(self, data: Octets) -> None:
        if data:
            self._encrypt(data)

    def writelines(self, list_of_data: Iterable[Octets]) -> None:
        # Together, so that records are full.
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Say so, and close when all that was written is sent."""
        if self._state == OPEN:
            self._state = CLOSED
            # The client's own goodbye is not waited for.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._send()
        self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._state != OPEN or self._socket.is_closing()

    def is_reading(self) -> bool:
        return not self._paused and not self.is_closing()

    def pause_reading(self) -> None:
        if not self._paused and not self.is_closing():
            self._paused = True
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        if self._paused and not self.is_closing():
            self._paused = False
            self._socket.resume_reading()
            # Later: whoever resumes does not expect to be called before that returns.
            self._loop.call_soon(self._go_on)

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._socket.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._inner = protocol
        self._plain = not isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._inner is not None
        return self._inner

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "ssl_object":
            return self._tls
        if name == "sslcontext":
            return self._tls.context
        if name == "peercert":
            return self._tls.getpeercert()
        return self._socket.get_extra_info(name, default)
