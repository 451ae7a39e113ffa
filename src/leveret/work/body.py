"""Bodies and the values they stand for, by content-type (JSON, text, MessagePack) and content-encoding (gzip and others)."""

import base64
import binascii
import zlib
from contextlib import suppress

import msgspec

# A small body can decompress to one that fills the memory.
DECOMPRESSED_MAX = 256 << 20

# One is usual.
CODINGS_MAX = 4

GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
GZIP_MAGIC = b"\x1f\x8b"
RAW_DEFLATE = -zlib.MAX_WBITS


class BadBody(Exception):
    """A body that is not what its properties say."""


def encode_body(value: object) -> tuple[bytes, str | None]:
    """A body for this value, and its content-type: bytes as they are, str as text, anything else as JSON."""
    if isinstance(value, str):
        return value.encode(), "text/plain; charset=utf-8"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value), None
    return msgspec.json.encode(value), "application/json"


def decode_body(body: bytes, content_type: str | None, content_encoding: str | None) -> object:
    """The body as a value; as bytes if the content-type is not one we know."""
    codings = [coding.strip() for coding in (content_encoding or "").lower().split(",")]
    if len(codings) > CODINGS_MAX:
        raise BadBody(f"the body is compressed more than {CODINGS_MAX} times")
    for coding in reversed(codings):
        body = _decompressed(body, coding)
    kind, _, parameters = (content_type or "").lower().partition(";")
    kind = kind.strip()
    if kind == "application/json" or kind.endswith("+json"):
        return _json(body)
    if kind in ("application/msgpack", "application/x-msgpack", "application/vnd.msgpack"):
        return _msgpack(body)
    if kind.startswith("text/"):
        return _text(body, _charset(parameters) or _charset_among(codings))
    return body


def _decompressed(body: bytes, coding: str) -> bytes:
    try:
        if coding in ("gzip", "x-gzip", "zlib"):
            return _inflated(body, GZIP_OR_ZLIB)
        if coding == "deflate":
            # In HTTP, deflate means the zlib format; many send raw deflate.
            try:
                return _inflated(body, GZIP_OR_ZLIB)
            except zlib.error:
                return _inflated(body, RAW_DEFLATE)
        if coding == "base64":
            return base64.b64decode(body, validate=True)
    except (zlib.error, binascii.Error) as error:
        raise BadBody(f"the body is not {coding}: {error}") from None
    # Celery and others name the character set here; see _charset_among.
    return body


def _inflated(body: bytes, form: int) -> bytes:
    found = b""
    while True:
        inflater = zlib.decompressobj(form)
        found += inflater.decompress(body, DECOMPRESSED_MAX + 1 - len(found))
        if len(found) > DECOMPRESSED_MAX:
            raise BadBody(f"the body decompresses to more than {DECOMPRESSED_MAX} bytes")
        if not inflater.eof:
            raise BadBody("the compressed body is truncated")
        body = inflater.unused_data
        # Several gzip files one behind the other are one gzip file.
        if not body.startswith(GZIP_MAGIC):
            return found


def _json(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"the body is not JSON: {error}") from None


def _msgpack(body: bytes) -> object:
    try:
        return msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"the body is not MessagePack: {error}") from None


def _text(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset)
    except (LookupError, ValueError) as error:
        raise BadBody(f"the body is not text: {error}") from None


def _charset(parameters: str) -> str | None:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return value.strip().strip('"')
    return None


def _charset_among(codings: list[str]) -> str:
    for coding in codings:
        with suppress(LookupError, ValueError):
            "x".encode(coding)
            return coding
    return "utf-8"
