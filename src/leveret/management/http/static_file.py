"""The files of the web page, as they are served at / beside the API.

(1) They are read once, when the broker starts. A request's path is only looked up among them, as it was sent: nothing is
    decoded or joined to a folder, so no `..`, encoded slash or symbolic link leads to any other file.
(2) A name with a hash in it (`index-0a1b2c3d.js`, as Vite writes them) is never given to other content, so such a file may
    be kept for a year without asking. Any other is asked for again each time, and is not sent again if it is the same.
(3) Nobody has to log in for them: what they show comes through the API.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from leveret.management.http.answer import Answer, not_found

# Where the page's build puts them.
PAGE_FOLDER = Path(__file__).parent.parent / "page"
INDEX = "/index.html"

FOR_EVER = "public, max-age=31536000, immutable"
CHECK_AGAIN = "no-cache"
# The page runs its own scripts only, and in no other page's frame.
POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
OCTETS = "application/octet-stream"

HASHED = re.compile(r"-([A-Za-z0-9_-]{8})\.[a-z0-9.]+")

NOT_BUILT = b"""\
Leveret is running, but its web page is not built in this installation.
To build it, install Node.js and run `make run` again in the checkout; wheels carry it.

The HTTP API is at /api/ and needs a login: /api/overview, for example, or /api/openapi.json, its description.
Prometheus' metrics are at /metrics.
"""


def has_hash(name: str) -> bool:
    """Whether a file's name ends in a hash of its content. A word (`-settings.js`) or a date is none."""
    found = HASHED.search(name)
    if found is None or found.end() != len(name) or found[1].isdigit():
        return False
    return any(letter.isdigit() or letter.isupper() for letter in found[1][1:])


class StaticFile:
    """One file: what it holds, and what is said with it."""

    __slots__ = ("_headers", "content", "content_type")

    def __init__(self, name: str, content: bytes) -> None:
        self.content = content
        self.content_type = CONTENT_TYPES.get(os.path.splitext(name)[1].lower(), OCTETS)
        self._headers = {
            "Cache-Control": FOR_EVER if has_hash(name) else CHECK_AGAIN,
            "Content-Security-Policy": POLICY,
            "ETag": f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"',
        }

    def answer(self, if_none_match: str) -> Answer:
        """The file, or 304 for who has it already."""
        known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
        if self._headers["ETag"] in known:
            return Answer(None, 304, self._headers)
        return Answer(self.content, 200, self._headers, self.content_type)


class StaticFiles:
    """All files of a folder, by the paths of their URLs."""

    def __init__(self, folder: Path) -> None:
        self._files = {path: StaticFile(path, content) for path, content in files_in(folder)}

    def answer(self, raw_path: str, if_none_match: str = "") -> Answer:
        """The file with this path, or 404; at / the page, or where the API is if there is no page."""
        file = self._files.get(INDEX if raw_path == "/" else raw_path)
        if file is not None:
            return file.answer(if_none_match)
        if raw_path == "/":
            return Answer(NOT_BUILT, content_type="text")
        raise not_found()


def files_in(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Path as in a URL and content of each file; symbolic links are left out, to files and to folders."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                yield quote(f"/{path.relative_to(folder).as_posix()}"), path.read_bytes()
