"""Certificates: what is shown to clients, and what is asked of theirs; read from files, again when those have changed.

(1) What is wrong is all said, a line for each fault (`BadTls`); a file that cannot be used changes nothing.
(2) A connection keeps what it began with; the next one has the new.
(3) There is no TLS below 1.2, no renegotiation and no compression. Sessions are not taken up again, so that a certificate
    is shown each time: there are no tickets, and what OpenSSL itself remembers for 1.2 goes with the certificates.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from leveret.server.clock import now_ms
from leveret.server.tls_settings import TlsSettings

# For 1.2; all those of 1.3 are good.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
# OpenSSL's X509_V_FLAG_NO_CHECK_TIME, for which Python has no name.
IGNORE_TIME = ssl.VerifyFlags(0x200000)
DAY_S = 86_400
SOON_DAYS = 30
LOOK_S = 1.0

log = logging.getLogger("leveret.tls")

# Path, and what changes with a file's content; nothing of a file that is not there.
Signature = tuple[tuple[str, int, int, int], ...]


class BadTls(Exception):
    """Settings of TLS that cannot be used; `faults` has a line for each thing that is wrong."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Loaded:
    """What files had: the context that new connections take, and the path of each certificate with the time of its end."""

    context: ssl.SSLContext
    ends: dict[str, str]


class Encrypted(Exception):
    """A key that is only there with a password."""


class Certificates:
    """Those that are in use: one for all names, and those for some. `context` is what a new connection takes."""

    def __init__(self, settings: TlsSettings) -> None:
        """BadTls if they cannot be used."""
        self._settings = settings
        self._signature = signature(settings)
        self._seen = self._signature
        self._loaded = load(settings)

    @property
    def context(self) -> ssl.SSLContext:
        return self._loaded.context

    def ending(self, before_s: float) -> dict[str, str]:
        """Path and end of those that are valid no longer than until then (seconds since 1970)."""
        return {path: end for path, end in self._loaded.ends.items() if ssl.cert_time_to_seconds(end) <= before_s}

    def reload(self, settings: TlsSettings) -> bool:
        """Take what the files have now; if that cannot be used, say so, and go on with what is in use."""
        self._signature = self._seen = signature(settings)
        try:
            loaded = load(settings)
        except BadTls as error:
            for fault in error.faults:
                log.error("%s; the certificates in use stay", fault)
            return False
        self._settings = settings
        self._loaded = loaded
        log.info("the certificates are read again; new connections have them")
        return True

    def remind(self) -> None:
        """Warn of those that have expired or soon will."""
        now_s = now_ms() / 1000
        for path, end in self.ending(now_s + SOON_DAYS * DAY_S).items():
            log.warning("%s %s", path, end_warning(end, now_s))

    def look(self) -> None:
        """Take files that have changed, once they have stayed as they are from one look to the next."""
        found = signature(self._settings)
        if found != self._signature and found == self._seen:
            self.reload(self._settings)
        self._seen = found


class Watch:
    """Looks at the certificates' files every second, and at their end every day, from `start` to `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, certificates: Certificates) -> None:
        self._loop = loop
        self._certificates = certificates
        self._timer: asyncio.TimerHandle | None = None
        self._remind_at = loop.time() + DAY_S

    def start(self) -> None:
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._certificates.look()
        if self._loop.time() >= self._remind_at:
            self._remind_at += DAY_S
            self._certificates.remind()
        self.start()


def signature(settings: TlsSettings) -> Signature:
    """What changes when one of the files is written, or replaced."""
    found = []
    for path in sorted({path for _, path in files(settings)}):
        with suppress(OSError):
            status = os.stat(path)
            found.append((path, status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


def files(settings: TlsSettings) -> Iterator[tuple[str, str]]:
    """The name of each setting that names a file, and the file."""
    yield from pairs("tls", settings.certificate, settings.key)
    if settings.ca:
        yield "tls.ca", settings.ca
    for name, one in settings.names.items():
        yield from pairs(f"tls.names.{name}", one.certificate, one.key)


def pairs(place: str, certificate: str, key: str) -> Iterator[tuple[str, str]]:
    yield f"{place}.certificate", certificate
    # A key may stand in its certificate's file.
    yield f"{place}.key", key or certificate


def load(settings: TlsSettings) -> Loaded:
    """What the files have; or BadTls, with all that is wrong."""
    faults = list(setting_faults(settings)) or list(file_faults(settings))
    if faults:
        raise BadTls(faults)
    context = context_of(settings, "tls", settings.certificate, settings.key or settings.certificate)
    ends = look_at(context, "tls", settings.certificate)
    names = {}
    for name, one in settings.names.items():
        place = f"tls.names.{name}"
        found = names[name.lower()] = context_of(settings, place, one.certificate, one.key or one.certificate)
        ends |= look_at(found, place, one.certificate)
    if names:
        context.sni_callback = chooser(names)
    if context.verify_mode != ssl.CERT_NONE:
        # Of several in the file, the one that ends first.
        last = min((str(found["notAfter"]) for found in context.get_ca_certs()), key=ssl.cert_time_to_seconds, default="")
        ends |= {settings.ca: last} if last else {}
    return Loaded(context, ends)


def setting_faults(settings: TlsSettings) -> Iterator[str]:
    """What is missing."""
    if not settings.certificate:
        yield "bad setting tls.certificate: it is not set, and without it there is no TLS"
    if settings.clients != "ignored" and not settings.ca:
        yield f'bad setting tls.ca: it is not set, and tls.clients = "{settings.clients}" needs it'


def file_faults(settings: TlsSettings) -> Iterator[str]:
    """What is wrong with each file by itself."""
    for name, path in files(settings):
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            yield f"bad setting {name}: cannot read {path}: {error.strerror}"
            continue
        if name.endswith(".key"):
            if b"PRIVATE KEY-----" not in content:
                yield f"bad setting {name}: {path} has no private key in PEM form"
            elif b"ENCRYPTED" in content:
                yield f"bad setting {name}: the key in {path} is encrypted; 'openssl pkey' writes one that is not"
        elif b"-----BEGIN CERTIFICATE-----" not in content and b"-----BEGIN TRUSTED CERTIFICATE-----" not in content:
            yield f"bad setting {name}: {path} has no certificate in PEM form"


def context_of(settings: TlsSettings, place: str, certificate: str, key: str) -> ssl.SSLContext:
    """TLS with one certificate; or BadTls."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        context.load_cert_chain(certificate, key, password=refuse_password)
    except Encrypted:
        raise BadTls([f"bad setting {place}.key: the key in {key} is encrypted"]) from None
    except OSError as error:
        raise BadTls([f"bad setting {place}.key: {pair_fault(certificate, key, error)}"]) from None
    if settings.clients != "ignored":
        try:
            context.load_verify_locations(settings.ca)
        except OSError as error:
            raise BadTls([f"bad setting tls.ca: {settings.ca} cannot be used: {reason_of(error)}"]) from None
        required = settings.clients == "required"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def refuse_password() -> bytes:
    """Whoever asks for a key's password has one that is encrypted: nobody is there to be asked for it."""
    raise Encrypted


def pair_fault(certificate: str, key: str, error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and "MISMATCH" in (error.reason or ""):
        return f"the key in {key} does not fit the certificate in {certificate}"
    return f"{certificate} and {key} cannot be used: {reason_of(error)}"


def reason_of(error: OSError) -> str:
    """OpenSSL's reason in small letters, or the system's."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "malformed content").replace("_", " ").lower()
    return error.strerror or str(error)


def chooser(names: dict[str, ssl.SSLContext]) -> Callable[[ssl.SSLSocket | ssl.SSLObject, str | None, object], None]:
    """Shows each client the certificate for the name that it asks for; `*.` stands for one part of a name."""

    def choose(client: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: object) -> None:
        wanted = (name or "").lower()
        found = names.get(wanted) or names.get("*." + wanted.partition(".")[2])
        if found is not None:
            client.context = found

    return choose


def look_at(context: ssl.SSLContext, place: str, path: str) -> dict[str, str]:
    """Warn of what clients may take offence at, although it can be used; path and end of the certificate."""
    try:
        found = as_clients_see(context, path)
    except ssl.SSLCertVerificationError as error:
        log.warning("%s.certificate: clients will refuse %s: %s", place, path, error.verify_message)
        return {}
    for warning in warnings(found):
        log.warning("%s.certificate: %s %s", place, path, warning)
    return {path: str(found["notAfter"])}


def warnings(found: Mapping[str, object]) -> Iterator[str]:
    """What clients may take offence at in a certificate."""
    now_s = now_ms() / 1000
    warning = end_warning(str(found["notAfter"]), now_s)
    if warning:
        yield warning
    if ssl.cert_time_to_seconds(str(found["notBefore"])) > now_s:
        yield f"is not valid yet: it will be from {found['notBefore']} on"
    if not found.get("subjectAltName"):
        yield "has no subjectAltName: clients that verify names will refuse it"


def end_warning(end: str, now_s: float) -> str:
    """What is to be said of a certificate that is valid until then; nothing while that is long."""
    days = (ssl.cert_time_to_seconds(end) - now_s) / DAY_S
    if days < 0:
        return f"has expired: it was valid until {end}"
    return f"expires in {int(days)} days: it is valid until {end}" if days < SOON_DAYS else ""


def as_clients_see(context: ssl.SSLContext, path: str) -> Mapping[str, object]:
    """A certificate as Python shows it to a client, which is the only one to whom it does: so here is one, in memory."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | IGNORE_TIME
    trusting.load_verify_locations(path)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(back, there)
    server = context.wrap_bio(there, back, server_side=True)
    while True:
        try:
            client.do_handshake()
            return client.getpeercert() or {}
        except ssl.SSLWantReadError:
            # It ends with the certificate that this client has not to show.
            with suppress(ssl.SSLError):
                server.do_handshake()
