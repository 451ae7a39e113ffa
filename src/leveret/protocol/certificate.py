"""What a client's certificate says, in RabbitMQ's words: subject, issuer, validity, and whose login it is.

A certificate is here what Python's `ssl` makes of one that was verified (`getpeercert`).
"""

from collections.abc import Iterable, Mapping
from typing import cast

Certificate = Mapping[str, object]
# A name, as parts that each have one or more names and values; and names of several kinds.
Distinguished = Iterable[Iterable[tuple[str, str]]]
Alternative = Iterable[tuple[str, str]]

# OpenSSL's names of the parts of a subject, and RabbitMQ's.
PARTS = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "pseudonym": "PSEUDONYM",
    "serialNumber": "SERIALNUMBER",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "surname": "SN",
    "title": "TITLE",
    "userId": "UID",
}
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# RabbitMQ's kinds of alternative names, and Python's.
KINDS = {"dns": "DNS", "ip": "IP Address", "email": "email", "uri": "URI"}


def subject(certificate: Certificate) -> str:
    """Whose it is."""
    return distinguished_name(cast(Distinguished, certificate.get("subject", ())))


def issuer(certificate: Certificate) -> str:
    """Who has signed it."""
    return distinguished_name(cast(Distinguished, certificate.get("issuer", ())))


def validity(certificate: Certificate) -> str:
    """From when to when."""
    return f"{iso_time(str(certificate['notBefore']))} - {iso_time(str(certificate['notAfter']))}"


def distinguished_name(parts: Distinguished) -> str:
    """A name as RFC 4514 writes it, the last part first."""
    named = ["+".join(f"{PARTS.get(name, name)}={escaped(value)}" for name, value in part) for part in parts]
    return ",".join(reversed(named))


def escaped(value: str) -> str:
    """A value in such a name. RabbitMQ: what is not ASCII is shown as its octets, too."""
    found = []
    octets = value.encode()
    for at, octet in enumerate(octets):
        one = chr(octet)
        if (at == 0 and one in " #") or (at == len(octets) - 1 and one == " ") or one in '"+,;<>\\':
            found.append("\\" + one)
        elif octet < 32 or octet >= 126:
            found.append(f"\\{octet:02X}")
        else:
            found.append(one)
    return "".join(found)


def iso_time(text: str) -> str:
    """`Nov  9 04:10:00 2026 GMT` as `2026-11-09T04:10:00Z`."""
    month, day, clock, year = text.split()[:4]
    return f"{year}-{MONTHS.index(month) + 1:02}-{int(day):02}T{clock}Z"


def login_name(certificate: Certificate, source: str, kind: str, index: int) -> str | None:
    """The user whom a certificate logs in: its whole subject, the common names in it, or one alternative name of a kind."""
    if source == "distinguished_name":
        return subject(certificate) or None
    if source == "common_name":
        parts = cast(Distinguished, certificate.get("subject", ()))
        return ",".join(value for part in parts for name, value in part if name == "commonName") or None
    alternatives = cast(Alternative, certificate.get("subjectAltName", ()))
    others = [value for name, value in alternatives if name == KINDS[kind]]
    return others[index] if index < len(others) else None
