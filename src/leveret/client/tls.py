"""TLS towards a broker, as the query of a URI asks for it: `amqps://…?cacertfile=ca.pem`.

RabbitMQ's names of the options are understood. What differs: a broker's certificate is verified unless the URI says
`verify=verify_none`; with `cacertfile` by that file, else by what this machine trusts.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping

from leveret.uri import Uri

HINT = "cacertfile=FILE in the URI names the certificate of the CA that has signed it"

log = logging.getLogger("leveret.client")


def tls_context(options: Mapping[str, str], shown: str) -> ssl.SSLContext:
    """TLS with these options of a URI, which may be `shown` so; OSError if a file of them cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if options.get("verify", "verify_peer") == "verify_none":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        log.warning("%s: the broker's certificate is not verified, as verify=verify_none says", shown)
    else:
        context.check_hostname = options.get("server_name_indication") != "disable"
        if "cacertfile" in options:
            context.load_verify_locations(options["cacertfile"])
        else:
            context.load_default_certs()
    if "certfile" in options:
        context.load_cert_chain(options["certfile"], options.get("keyfile"), options.get("password", ""))
    return context


async def context_for(uri: Uri) -> ssl.SSLContext:
    """The same for a URI; in a thread, as all that a machine trusts takes some time to be read."""
    return await asyncio.to_thread(tls_context, uri.tls, uri.shown)


def server_name(options: Mapping[str, str], host: str) -> str:
    """The name that is asked for, and that the broker's certificate must have."""
    name = options.get("server_name_indication", host)
    return host if name == "disable" else name


def fault_text(error: OSError | ValueError) -> str:
    """What has gone wrong, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not accepted: {error.verify_message.rstrip('.')}; {HINT}"
    if isinstance(error, ssl.SSLError) and error.reason:
        reason = error.reason.replace("_", " ").lower()
        if error.reason in ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"):
            return f"what listens there does not speak TLS ({reason})"
        return f"TLS failed: {reason}"
    return str(error)
