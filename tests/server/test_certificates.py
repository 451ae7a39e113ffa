"""Certificates: what is refused when the broker starts, what is warned of, and what becomes of files that change."""

import logging
import os
import shutil
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.certificates import Authority, Pair, openssl

from leveret.protocol.certificate import subject
from leveret.server.certificates import BadTls, Certificates, load
from leveret.server.clock import now_ms
from leveret.server.tls_settings import NamedCertificate, TlsSettings


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("server")


@pytest.fixture(scope="module")
def other(authority: Authority) -> Pair:
    return authority.issue("other", names="DNS:other.example")


def settings_of(pair: Pair) -> TlsSettings:
    return TlsSettings(certificate=str(pair.certificate), key=str(pair.key))


def faults(settings: TlsSettings) -> list[str]:
    with pytest.raises(BadTls) as refused:
        load(settings)
    return refused.value.faults


# What is wrong


def test_each_missing_file_has_its_line() -> None:
    settings = TlsSettings(certificate="/no/c", key="/no/k", ca="/no/ca", clients="asked")
    assert faults(settings) == [
        "bad setting tls.certificate: cannot read /no/c: No such file or directory",
        "bad setting tls.key: cannot read /no/k: No such file or directory",
        "bad setting tls.ca: cannot read /no/ca: No such file or directory",
    ]


def test_each_missing_setting_has_its_line() -> None:
    assert faults(TlsSettings(port=1, clients="required")) == [
        "bad setting tls.certificate: it is not set, and without it there is no TLS",
        'bad setting tls.ca: it is not set, and tls.clients = "required" needs it',
    ]


def test_key_that_does_not_fit(pair: Pair, other: Pair) -> None:
    settings = settings_of(Pair(pair.certificate, other.key))
    said = f"bad setting tls.key: the key in {other.key} does not fit the certificate in {pair.certificate}"
    assert faults(settings) == [said]


@pytest.mark.parametrize("form", ["pkcs8", "ec"])
def test_key_that_is_encrypted(tmp_path: Path, pair: Pair, form: str) -> None:
    """Nobody is there to be asked for its password; in both forms that such a file may have."""
    key = tmp_path / "encrypted.key"
    kind = ("pkey",) if form == "pkcs8" else ("ec",)
    openssl(*kind, "-in", str(pair.key), "-aes256", "-passout", "pass:secret", "-out", str(key))
    said = f"bad setting tls.key: the key in {key} is encrypted; 'openssl pkey' writes one that is not"
    assert faults(settings_of(Pair(pair.certificate, key))) == [said]


def test_files_that_are_something_else(tmp_path: Path, pair: Pair) -> None:
    file = tmp_path / "file"
    file.write_text("something else")
    settings = TlsSettings(certificate=str(file), key=str(file), ca=str(file))
    assert faults(settings) == [
        f"bad setting tls.certificate: {file} has no certificate in PEM form",
        f"bad setting tls.key: {file} has no private key in PEM form",
        f"bad setting tls.ca: {file} has no certificate in PEM form",
    ]
    assert faults(TlsSettings(certificate=str(pair.certificate))) == [
        f"bad setting tls.key: {pair.certificate} has no private key in PEM form"
    ]


def test_files_with_nonsense_in_them(tmp_path: Path, pair: Pair) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    (said,) = faults(settings_of(Pair(nonsense, pair.key)))
    assert said.startswith(f"bad setting tls.key: {nonsense} and {pair.key} cannot be used: ")
    settings = TlsSettings(certificate=str(pair.certificate), key=str(pair.key), ca=str(nonsense), clients="asked")
    (said,) = faults(settings)
    assert said.startswith(f"bad setting tls.ca: {nonsense} cannot be used: ")


def test_files_of_a_name_are_looked_at_too(pair: Pair) -> None:
    settings = TlsSettings(
        certificate=str(pair.certificate), key=str(pair.key), names={"a.example": NamedCertificate("/no/c", "/no/k")}
    )
    assert faults(settings) == [
        "bad setting tls.names.a.example.certificate: cannot read /no/c: No such file or directory",
        "bad setting tls.names.a.example.key: cannot read /no/k: No such file or directory",
    ]


def test_key_may_stand_in_its_certificates_file(tmp_path: Path, pair: Pair) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(pair.certificate.read_bytes() + pair.key.read_bytes())
    assert list(load(TlsSettings(certificate=str(both))).ends) == [str(both)]


# What is warned of


@pytest.mark.parametrize(
    ("days", "names", "said"),
    [
        (-1, "DNS:localhost", " has expired: it was valid until "),
        (3, "DNS:localhost", " expires in 2 days: it is valid until "),
        (100, "", " has no subjectAltName: clients that verify names will refuse it"),
    ],
    ids=["expired", "soon", "no names"],
)
def test_certificate_that_clients_will_not_like(
    authority: Authority, caplog: pytest.LogCaptureFixture, days: int, names: str, said: str
) -> None:
    pair = authority.issue(f"odd{days}{len(names)}", names=names, days=days)
    load(settings_of(pair))
    (message,) = caplog.messages
    assert message.startswith(f"tls.certificate: {pair.certificate}{said}")
    assert caplog.records[0].levelno == logging.WARNING


def test_certificate_for_something_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key, found = tmp_path / "key", tmp_path / "pem"
    openssl("genpkey", "-algorithm", "RSA", "-out", str(key))
    usage = ("-addext", "extendedKeyUsage=clientAuth", "-addext", "subjectAltName=DNS:localhost")
    openssl("req", "-x509", "-new", "-key", str(key), "-subj", "/CN=x", "-days", "100", *usage, "-out", str(found))
    load(settings_of(Pair(found, key)))
    assert caplog.messages == [f"tls.certificate: clients will refuse {found}: unsuitable certificate purpose"]


def test_certificate_that_is_well_is_not_spoken_of(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    load(settings_of(pair))
    load(TlsSettings(certificate=str(pair.certificate), key=str(pair.key), ca=str(pair.certificate), clients="required"))
    assert caplog.messages == []


def test_certificates_that_end_before_a_time(authority: Authority) -> None:
    """Whose authority is looked at too where clients' certificates are."""
    soon, late = authority.issue("soon", days=40), authority.issue("late", days=100)
    certificates = Certificates(
        TlsSettings(
            certificate=str(late.certificate),
            key=str(late.key),
            names={"soon.example": NamedCertificate(str(soon.certificate), str(soon.key))},
            ca=str(authority.certificate),
            clients="asked",
        )
    )
    now_s = now_ms() / 1000
    day_s = 86_400
    assert certificates.ending(now_s) == {}
    # As long as openssl makes one that is not told.
    assert list(certificates.ending(now_s + 31 * day_s)) == [str(authority.certificate)]
    assert set(certificates.ending(now_s + 50 * day_s)) == {str(authority.certificate), str(soon.certificate)}
    assert len(certificates.ending(now_s + 101 * day_s)) == 3


def test_reminder_is_of_those_that_end_soon(authority: Authority, pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """Every day, as a broker runs for long."""
    Certificates(settings_of(pair)).remind()
    assert caplog.messages == []
    old = authority.issue("reminded", days=-1)
    certificates = Certificates(settings_of(old))
    caplog.clear()
    certificates.remind()
    (message,) = caplog.messages
    assert message.startswith(f"{old.certificate} has expired: it was valid until ")


# What clients are shown


def shown(context: ssl.SSLContext, name: str | None, authority: Authority) -> str:
    """The common name of what a client sees that asks for a name."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.load_verify_locations(authority.certificate)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(back, there, server_hostname=name)
    server = context.wrap_bio(there, back, server_side=True)
    for one in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            one.do_handshake()
    found = client.getpeercert()
    assert found is not None
    return subject(found).removeprefix("CN=")


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        (None, "server"),
        ("unknown.example", "server"),
        ("other.example", "other"),
        ("OTHER.example", "other"),
        ("a.wild.example", "wild"),
        ("a.b.wild.example", "server"),
        ("wild.example", "server"),
    ],
)
def test_certificate_is_chosen_by_the_name_that_is_asked_for(
    authority: Authority, pair: Pair, other: Pair, asked: str | None, seen: str
) -> None:
    """SNI"""
    wild = authority.issue("wild", names="DNS:*.wild.example")
    loaded = load(
        TlsSettings(
            certificate=str(pair.certificate),
            key=str(pair.key),
            names={
                "other.example": NamedCertificate(str(other.certificate), str(other.key)),
                "*.wild.example": NamedCertificate(str(wild.certificate), str(wild.key)),
            },
        )
    )
    assert shown(loaded.context, asked, authority) == seen


# Files that change


@pytest.fixture
def place(tmp_path: Path, pair: Pair) -> Callable[[Pair], TlsSettings]:
    """Puts a pair where the settings say."""

    def put(pair: Pair) -> TlsSettings:
        for source, name in zip(pair, ("pem", "key"), strict=True):
            new = tmp_path / f"new.{name}"
            shutil.copy(source, new)
            os.replace(new, tmp_path / f"own.{name}")
        return TlsSettings(certificate=str(tmp_path / "own.pem"), key=str(tmp_path / "own.key"))

    return put


def test_files_that_have_changed_are_taken_at_the_second_look(
    authority: Authority, pair: Pair, other: Pair, place: Callable[[Pair], TlsSettings]
) -> None:
    """When nobody writes them any more."""
    certificates = Certificates(place(pair))
    first = certificates.context
    certificates.look()
    certificates.look()
    assert certificates.context is first
    place(other)
    certificates.look()
    assert certificates.context is first
    certificates.look()
    assert shown(certificates.context, None, authority) == "other"


def test_files_that_cannot_be_used_are_said_once_and_change_nothing(
    authority: Authority, pair: Pair, other: Pair, place: Callable[[Pair], TlsSettings], caplog: pytest.LogCaptureFixture
) -> None:
    settings = place(pair)
    certificates = Certificates(settings)
    Path(settings.key).write_text("nonsense")
    for _ in range(5):
        certificates.look()
    said = f"bad setting tls.key: {settings.key} has no private key in PEM form; the certificates in use stay"
    assert caplog.messages == [said]
    assert shown(certificates.context, None, authority) == "server"
    Path(settings.key).unlink()
    for _ in range(5):
        certificates.look()
    assert len(caplog.messages) == 2
    place(other)
    for _ in range(2):
        certificates.look()
    assert shown(certificates.context, None, authority) == "other"


def test_certificate_that_comes_before_its_key(
    authority: Authority, pair: Pair, other: Pair, place: Callable[[Pair], TlsSettings], caplog: pytest.LogCaptureFixture
) -> None:
    settings = place(pair)
    certificates = Certificates(settings)
    shutil.copy(other.certificate, settings.certificate)
    certificates.look()
    certificates.look()
    assert "does not fit the certificate" in caplog.text
    shutil.copy(other.key, settings.key)
    certificates.look()
    certificates.look()
    assert shown(certificates.context, None, authority) == "other"
