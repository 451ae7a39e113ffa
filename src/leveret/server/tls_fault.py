"""Why a handshake came to nothing, in words for whoever reads the log."""

import ssl

from leveret.protocol.handshake import is_tls

METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")

# OpenSSL's reasons. An alert is what the client has told us.
REASONS = {
    "CERTIFICATE_REQUIRED": "the client has shown no certificate, and must",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate, and must",
    "UNSUPPORTED_PROTOCOL": "the client offers only versions of TLS before 1.2",
    "UNKNOWN_PROTOCOL": "the client offers only versions of TLS before 1.2",
    "INAPPROPRIATE_FALLBACK": "the client has fallen back to a lower version of TLS, or somebody between has made it",
    "NO_SHARED_CIPHER": "the client and this broker have no cipher in common",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust whoever signed this broker's certificate (unknown CA)",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept this broker's certificate (bad certificate)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client does not accept this broker's certificate: it has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept this broker's certificate (certificate unknown)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the client has refused the handshake",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the client and this broker have no version of TLS in common",
}


def handshake_fault(error: ssl.SSLError, head: bytes) -> str:
    """What a client has done wrong that has said `head` first."""
    if head.startswith(b"AMQP"):
        return "a client without TLS (AMQP) has connected to a port for TLS"
    if head.startswith(METHODS):
        return "a client without TLS (HTTP) has connected to a port for TLS"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    reason = error.reason or ""
    if reason in REASONS:
        return REASONS[reason]
    if not is_tls(head):
        return "what has connected to a port for TLS speaks something else"
    return f"the handshake has failed: {reason.replace('_', ' ').lower() or error}"
