"""TLS options of an amqps URI."""

import logging
import ssl

from leveret.uri import Uri

log = logging.getLogger("leveret.client")


def tls_context(uri: Uri) -> ssl.SSLContext:
    """TLS as the URI's query asks for; raises OSError if a certificate file cannot be read.

    RabbitMQ: the broker's certificate is not verified unless verify=verify_peer is given; here a cacertfile is enough.
    """
    wanted = uri.tls
    verify = wanted.get("verify") or ("verify_peer" if "cacertfile" in wanted else "verify_none")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if verify == "verify_peer":
        context.check_hostname = wanted.get("server_name_indication") != "disable"
        if "cacertfile" in wanted:
            context.load_verify_locations(wanted["cacertfile"])
        else:
            context.load_default_certs()
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        log.warning("%s: the broker's certificate is not verified; add verify=verify_peer to verify it", uri.shown)
    if "certfile" in wanted:
        context.load_cert_chain(wanted["certfile"], wanted.get("keyfile"), wanted.get("password", ""))
    return context


def tls_name(uri: Uri) -> str | None:
    """The name that the broker's certificate must have."""
    name = uri.tls.get("server_name_indication", uri.host)
    return uri.host if name == "disable" else name
