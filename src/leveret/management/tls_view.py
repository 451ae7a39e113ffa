"""What TLS knows of a connection, under RabbitMQ's names and in its words."""

import ssl

from leveret.protocol.certificate import issuer, subject, validity

# What is known only of connections with TLS.
NAMES = (
    "ssl_protocol",
    "ssl_key_exchange",
    "ssl_cipher",
    "ssl_hash",
    "peer_cert_subject",
    "peer_cert_issuer",
    "peer_cert_validity",
)
# All ciphers that are spoken authenticate by themselves.
HASH = "aead"
# OpenSSL's names of ciphers of 1.3 begin so, and say nothing of the exchange of keys.
TLS_1_3 = "TLS_"
BITS = {"AES128": "AES_128", "AES256": "AES_256"}


def tls_view(tls: ssl.SSLObject | None) -> dict[str, str | None]:
    """All of NAMES, and None where nothing is known."""
    view: dict[str, str | None] = dict.fromkeys(NAMES)
    cipher = None if tls is None else tls.cipher()
    if tls is None or cipher is None:
        return view
    key_exchange, name = cipher_parts(cipher[0])
    view |= {
        "ssl_protocol": (tls.version() or "").lower(),
        "ssl_key_exchange": key_exchange,
        "ssl_cipher": name,
        "ssl_hash": HASH,
    }
    certificate = tls.getpeercert()
    if certificate:
        view |= {
            "peer_cert_subject": subject(certificate),
            "peer_cert_issuer": issuer(certificate),
            "peer_cert_validity": validity(certificate),
        }
    return view


def cipher_parts(name: str) -> tuple[str, str]:
    """Key exchange and cipher: `ecdhe_rsa` and `aes_256_gcm`. RabbitMQ: in 1.3 the former is `any`."""
    if name.startswith(TLS_1_3):
        return "any", name.removeprefix(TLS_1_3).rpartition("_")[0].lower()
    exchange, signature, *rest = name.split("-")
    if rest[0] in BITS:
        rest = [BITS[rest[0]], rest[1]]
    return f"{exchange}_{signature}".lower(), "_".join(rest).lower()
