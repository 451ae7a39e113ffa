"""Bodies as content-type and content-encoding say."""

import base64
import gzip
import json
import zlib
from typing import Any

import msgspec
import pytest

from leveret.work import body as body_module
from leveret.work.body import BadBody, decode_body

VALUE = {"a": [1, "é", None]}
JSON = json.dumps(VALUE).encode()


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("body", "content_type", "content_encoding", "value"),
    [
        (b"\x00\xff", None, None, b"\x00\xff"),
        (b"x", "application/octet-stream", None, b"x"),
        (JSON, "application/json", None, VALUE),
        (JSON, "Application/JSON; charset=utf-8", "utf-8", VALUE),
        (JSON, "application/vnd.shop+json", None, VALUE),
        (msgspec.msgpack.encode(VALUE), "application/msgpack", None, VALUE),
        (msgspec.msgpack.encode(VALUE), "application/x-msgpack", "binary", VALUE),
        ("é".encode(), "text/plain", None, "é"),
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", None, "é"),
        ("я".encode("koi8-r"), 'text/html; a=b; charset="koi8-r"', None, "я"),
        ("я".encode("utf-16"), "text/plain", "utf-16", "я"),
        (b"x", "text/plain", "no-such-thing", "x"),
        (gzip.compress(JSON), "application/json", "gzip", VALUE),
        (gzip.compress(b"a") + gzip.compress(b"b"), None, "x-gzip", b"ab"),
        (zlib.compress(JSON), "application/json", "zlib", VALUE),
        (zlib.compress(JSON), "application/json", "deflate", VALUE),
        (raw_deflate(JSON), "application/json", "deflate", VALUE),
        (base64.b64encode(JSON), "application/json", "Base64", VALUE),
        (base64.b64encode(gzip.compress(b"x")), "text/plain", "gzip, base64", "x"),
        (gzip.compress("é".encode("latin-1")), "text/plain; charset=latin-1", "gzip", "é"),
    ],
    ids=lambda value: str(value)[:25],
)
def test_body(body: bytes, content_type: str | None, content_encoding: str | None, value: Any) -> None:
    """SPEC §10, issue 6."""
    assert decode_body(body, content_type, content_encoding) == value


@pytest.mark.parametrize(
    ("body", "content_type", "content_encoding", "text"),
    [
        (b"{", "application/json", None, "not JSON"),
        (b"\xff", "application/json", None, "not JSON"),
        (b"[" * 100_000, "application/json", None, "not JSON"),
        (b"\xc1", "application/msgpack", None, "not MessagePack"),
        (b"\xff", "text/plain", None, "not text"),
        (b"x", "text/plain; charset=klingon", None, "not text"),
        (b"x", "text/plain; charset=a\0b", None, "not text"),
        (b"x", "text/plain; charset=zlib_codec", None, "not text"),
        (b"not packed", None, "gzip", "not gzip"),
        (b"\xff" * 9, None, "deflate", "not deflate"),
        (gzip.compress(b"x" * 1000)[:-9], None, "gzip", "truncated"),
        (b"!", None, "base64", "not base64"),
        (b"x", None, "gzip,gzip,gzip,gzip,gzip", "more than 4 times"),
    ],
    ids=lambda value: str(value)[:25],
)
def test_bad_body(body: bytes, content_type: str | None, content_encoding: str | None, text: str) -> None:
    with pytest.raises(BadBody, match=text):
        decode_body(body, content_type, content_encoding)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_bomb_is_not_decompressed(pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "DECOMPRESSED_MAX", 1 << 20)
    assert decode_body(pack(bytes(1 << 20)), None, "gzip") == bytes(1 << 20)
    with pytest.raises(BadBody, match="decompresses to more than 1048576 bytes"):
        decode_body(pack(bytes((1 << 20) + 1)), None, "gzip")
    with pytest.raises(BadBody, match="decompresses to more than 1048576 bytes"):
        decode_body(gzip.compress(bytes(600_000)) * 2, None, "gzip")
