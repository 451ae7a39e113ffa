"""Browsers: which pages may ask, and what a browser is told about the answers.

(1) A request that changes something, and says which page it comes from (`Origin`), is refused if that is neither the
    broker's own nor one that the settings allow: a browser that knows a password or a cookie sends it along, whoever asks.
(2) With the cookie alone it must say so, or have the header of the broker's own page, which no other page can send.
(3) Pages elsewhere may read answers only if the settings allow them (CORS), and then with a login that they have themselves:
    never with the browser's cookies or passwords.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from multidict import CIMultiDict

from leveret.management.http.answer import Refused

# The page sends it with every request.
PAGE_HEADER = "X-Leveret-Page"
LOOKING = ("GET", "HEAD", "OPTIONS")
SECURITY_HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
# What a page elsewhere may send, and see of an answer.
CORS_REQUEST_HEADERS = "accept, authorization, content-type, x-reason"
CORS_MAX_AGE_S = 1800


def check_origin(method: str, headers: Mapping[str, str], by_cookie: bool, allowed: tuple[str, ...]) -> None:
    """Refuse a change that another page asks for."""
    if method in LOOKING:
        return
    origin = headers.get("Origin")
    if origin is None:
        if by_cookie and PAGE_HEADER not in headers:
            raise Refused(401, "With a cookie alone nothing can be changed", "not_authorized")
    elif not is_own(origin, headers.get("Host", "")) and (by_cookie or not is_allowed(origin, allowed)):
        raise Refused(401, "Not allowed from this origin", "not_authorized")


def is_own(origin: str, host: str) -> bool:
    """Whether a page of the broker's own asks. The scheme may be another one: a proxy may have taken TLS off."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and parts.netloc.lower() == host.lower()


def is_allowed(origin: str, allowed: tuple[str, ...]) -> bool:
    """Whether the settings allow a page elsewhere."""
    return "*" in allowed or origin in allowed


def add_cors(headers: "CIMultiDict[str]", origin: str, allowed: tuple[str, ...], methods: str | None = None) -> None:
    """Let a page elsewhere read the answer, if the settings do; with `methods`, ask it what it likes first."""
    if not origin or not is_allowed(origin, allowed):
        return
    headers["Access-Control-Allow-Origin"] = "*" if "*" in allowed else origin
    if methods is not None:
        headers["Access-Control-Allow-Methods"] = methods
        headers["Access-Control-Allow-Headers"] = CORS_REQUEST_HEADERS
        headers["Access-Control-Max-Age"] = str(CORS_MAX_AGE_S)


def add_security(headers: "CIMultiDict[str]", secure: bool, host: str, hsts_s: int) -> None:
    """What every answer says. With TLS: come with TLS only; but not to localhost, where others are without."""
    for name, value in SECURITY_HEADERS.items():
        headers[name] = value
    if secure and hsts_s and host.partition(":")[0] != "localhost":
        headers["Strict-Transport-Security"] = f"max-age={hsts_s}"
