"""What a certificate says, in RabbitMQ's words."""

from typing import Any

import pytest

from leveret.protocol.certificate import distinguished_name, escaped, iso_time, issuer, login_name, subject, validity

CERTIFICATE: dict[str, Any] = {
    "subject": (
        (("countryName", "DE"),),
        (("organizationName", "Hare, Ltd."),),
        (("commonName", "shop"), ("emailAddress", "shop@hare.example")),
    ),
    "issuer": ((("commonName", "Hare's CA"),),),
    "notBefore": "Nov  9 04:10:00 2026 GMT",
    "notAfter": "Dec 31 23:59:59 2036 GMT",
    "subjectAltName": (
        ("DNS", "a.example"),
        ("IP Address", "192.0.2.1"),
        ("DNS", "b.example"),
        ("email", "shop@hare.example"),
        ("URI", "urn:shop"),
    ),
}


def test_names_are_written_from_their_end() -> None:
    """SPEC §9.1: peer_cert_subject, peer_cert_issuer"""
    assert subject(CERTIFICATE) == "CN=shop+EMAILADDRESS=shop@hare.example,O=Hare\\, Ltd.,C=DE"
    assert issuer(CERTIFICATE) == "CN=Hare's CA"


def test_part_without_a_short_name_has_its_own() -> None:
    assert distinguished_name(((("2.5.4.97", "x"),),)) == "2.5.4.97=x"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("", ""),
        (" a b ", "\\ a b\\ "),
        ("#1", "\\#1"),
        ("a#", "a#"),
        ('a"b+c,d;e<f>g\\h', 'a\\"b\\+c\\,d\\;e\\<f\\>g\\\\h'),
        ("é\n~", "\\C3\\A9\\0A\\7E"),
    ],
)
def test_value_is_escaped(value: str, shown: str) -> None:
    assert escaped(value) == shown


def test_validity() -> None:
    """SPEC §9.1: peer_cert_validity"""
    assert validity(CERTIFICATE) == "2026-11-09T04:10:00Z - 2036-12-31T23:59:59Z"
    assert iso_time("Jan 11 00:00:01 2030 GMT") == "2030-01-11T00:00:01Z"


@pytest.mark.parametrize(
    ("source", "kind", "index", "name"),
    [
        ("distinguished_name", "dns", 0, "CN=shop+EMAILADDRESS=shop@hare.example,O=Hare\\, Ltd.,C=DE"),
        ("common_name", "dns", 0, "shop"),
        ("subject_alternative_name", "dns", 0, "a.example"),
        ("subject_alternative_name", "dns", 1, "b.example"),
        ("subject_alternative_name", "dns", 2, None),
        ("subject_alternative_name", "ip", 0, "192.0.2.1"),
        ("subject_alternative_name", "email", 0, "shop@hare.example"),
        ("subject_alternative_name", "uri", 0, "urn:shop"),
    ],
)
def test_whose_login_it_is(source: str, kind: str, index: int, name: str | None) -> None:
    """SPEC §7.4 EXTERNAL"""
    assert login_name(CERTIFICATE, source, kind, index) == name


@pytest.mark.parametrize("source", ["distinguished_name", "common_name", "subject_alternative_name"])
def test_certificate_without_a_name_is_nobodys(source: str) -> None:
    assert login_name({"subject": ()}, source, "dns", 0) is None


def test_several_common_names_are_one() -> None:
    """RabbitMQ joins them."""
    both = {"subject": ((("commonName", "a"),), (("commonName", "b"),))}
    assert login_name(both, "common_name", "dns", 0) == "a,b"
