"""TLS as an amqps URI asks for it."""

import logging
import ssl

from leveret.uri import Uri

log = logging.getLogger("leveret.client")


def tls_context(uri: Uri) -> ssl.SSLContext:
    """What a URI's query says of certificates; OSError if a file cannot be read.

    RabbitMQ: who the broker is, is not asked, unless verify=verify_peer says so; here a cacertfile does too.
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
        log.warning("%s: certificates are not checked; verify=verify_peer would", uri.shown)
    if "certfile" in wanted:
        context.load_cert_chain(wanted["certfile"], wanted.get("keyfile"), wanted.get("password", ""))
    return context


def tls_name(uri: Uri) -> str | None:
    """The name that the broker's certificate should have."""
    name = uri.tls.get("server_name_indication", uri.host)
    return uri.host if name == "disable" else name
