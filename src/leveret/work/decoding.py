"""A body as its content-type and content-encoding say: JSON, text or MessagePack, packed or not."""

import base64
import binascii
import zlib
from contextlib import suppress
from typing import Any

import msgspec

# A small body can unpack to one that fills the memory.
UNPACKED_MAX = 256 << 20

# One is usual.
CODINGS_MAX = 4

GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
GZIP_MAGIC = b"\x1f\x8b"
RAW_DEFLATE = -zlib.MAX_WBITS


class BadBody(Exception):
    """A body that is not what its properties say."""


def decoded(body: bytes, content_type: str | None, content_encoding: str | None) -> Any:
    """The body as a value; as bytes where the type says nothing we know."""
    codings = [coding.strip() for coding in (content_encoding or "").lower().split(",")]
    if len(codings) > CODINGS_MAX:
        raise BadBody(f"the body is packed more than {CODINGS_MAX} times")
    for coding in reversed(codings):
        body = _unpacked(body, coding)
    kind, _, parameters = (content_type or "").lower().partition(";")
    kind = kind.strip()
    if kind == "application/json" or kind.endswith("+json"):
        return _json(body)
    if kind in ("application/msgpack", "application/x-msgpack", "application/vnd.msgpack"):
        return _msgpack(body)
    if kind.startswith("text/"):
        return _text(body, _charset(parameters) or _charset_among(codings))
    return body


def _unpacked(body: bytes, coding: str) -> bytes:
    try:
        if coding in ("gzip", "x-gzip", "zlib"):
            return _inflated(body, GZIP_OR_ZLIB)
        if coding == "deflate":
            # HTTP's deflate is zlib's form; many send the bare one.
            try:
                return _inflated(body, GZIP_OR_ZLIB)
            except zlib.error:
                return _inflated(body, RAW_DEFLATE)
        if coding == "base64":
            return base64.b64decode(body, validate=True)
    except (zlib.error, binascii.Error) as error:
        raise BadBody(f"the body is no {coding}: {error}") from None
    # Celery and others name the character set here; see _charset_among.
    return body


def _inflated(body: bytes, form: int) -> bytes:
    found = b""
    while True:
        unpacker = zlib.decompressobj(form)
        found += unpacker.decompress(body, UNPACKED_MAX + 1 - len(found))
        if len(found) > UNPACKED_MAX:
            raise BadBody(f"the body unpacks to more than {UNPACKED_MAX} bytes")
        if not unpacker.eof:
            raise BadBody("the body is packed and not whole")
        body = unpacker.unused_data
        # Several packed files one behind the other are one packed file, for gzip.
        if not body.startswith(GZIP_MAGIC):
            return found


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"the body is no JSON: {error}") from None


def _msgpack(body: bytes) -> Any:
    try:
        return msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"the body is no MessagePack: {error}") from None


def _text(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset)
    except (LookupError, ValueError) as error:
        raise BadBody(f"the body is no text: {error}") from None


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
