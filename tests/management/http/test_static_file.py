"""The files of the web page at /: what is served, how long it may be kept, and that nothing else can be reached."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.management.support import Http, Running
from tests.server.support import PATIENCE

from leveret.management.http.static_file import StaticFiles, has_hash
from leveret.management.server import Management
from leveret.server.config import Config
from leveret.server.endpoint import HTTP, Endpoint
from leveret.server.node import Node
from leveret.testing.thread import NodeThread

INDEX = b"<!doctype html><title>Leveret</title>"
SCRIPT = b"export const answer = 42\n"
SECRET = b"not for everybody"
FOR_EVER = "public, max-age=31536000, immutable"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page as it may be built, in a folder beside which there is something else."""
    place = Path(tmp_path_factory.mktemp("page"))
    (place / "secret.txt").write_bytes(SECRET)
    (place / "outside").mkdir()
    (place / "outside" / "secret.txt").write_bytes(SECRET)
    page = place / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_bytes(INDEX)
    (page / "a b.txt").write_bytes(b"spaced")
    (page / "assets" / "index-0a1b2c3d.js").write_bytes(SCRIPT)
    (page / "assets" / "logo.svg").write_bytes(b"<svg/>")
    (page / "linked.txt").symlink_to(place / "secret.txt")
    (page / "linked").symlink_to(place / "outside")
    os.mkfifo(page / "pipe")
    return page


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Http]:
    """A client of a broker that has this page, also below /ops/broker; it does not log in."""
    config = Config(port=0, storage="memory", management=False, management_path_prefix="/ops/broker")
    thread = NodeThread(config, metrics=False)
    managing: list[Management] = []

    async def start(node: Node) -> int:
        managing.append(Management(node, page=folder))
        await managing[0].start([Endpoint(HTTP, "127.0.0.1", 0)])
        return node.listeners[-1].port

    async def stop(node: Node) -> None:
        await managing[0].stop()

    thread.begin()
    thread.ready.result(PATIENCE)
    try:
        yield Http(thread.call(start), user=None)
        thread.call(stop)
    finally:
        thread.join()


@pytest.mark.parametrize(
    ("path", "content_type", "content", "caching"),
    [
        ("/", "text/html; charset=utf-8", INDEX, "no-cache"),
        ("/index.html", "text/html; charset=utf-8", INDEX, "no-cache"),
        ("/assets/index-0a1b2c3d.js", "text/javascript; charset=utf-8", SCRIPT, FOR_EVER),
        ("/assets/index-0a1b2c3d.js?v=1", "text/javascript; charset=utf-8", SCRIPT, FOR_EVER),
        ("/assets/logo.svg", "image/svg+xml", b"<svg/>", "no-cache"),
        ("/a%20b.txt", "text/plain; charset=utf-8", b"spaced", "no-cache"),
    ],
)
def test_file_is_served(page: Http, path: str, content_type: str, content: bytes, caching: str) -> None:
    answer = page.ask("GET", path)
    assert (answer.status, answer.body) == (200, content)
    assert (answer.headers["Content-Type"], answer.headers["Cache-Control"]) == (content_type, caching)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    head = page.ask("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert (head.headers["Content-Length"], head.headers["ETag"]) == (str(len(content)), answer.headers["ETag"])


@pytest.mark.parametrize("path", ["/", "/assets/logo.svg", "/assets/index-0a1b2c3d.js"])
def test_file_that_is_known_is_not_sent_again(page: Http, path: str) -> None:
    tag = page.ask("GET", path).headers["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}'):
        again = page.ask("GET", path, headers={"If-None-Match": known})
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    assert page.ask("GET", path, headers={"If-None-Match": '"other"'}).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/missing.js",
        "/assets",
        "/assets/",
        "//index.html",
        "/./index.html",
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/assets/../index.html",
        "/..%2fsecret.txt",
        "/%2e%2e/secret.txt",
        "/%2e%2e%2fsecret.txt",
        "/%252e%252e%252fsecret.txt",
        "/..%5csecret.txt",
        "/..\\secret.txt",
        "/assets%2flogo.svg",
        "/assets%2Flogo.svg",
        "/%2fetc%2fpasswd",
        "//etc/passwd",
        "/etc/passwd",
        "/index.html%00",
        "/index.html/",
        "/linked.txt",
        "/linked",
        "/linked/secret.txt",
        "/pipe",
    ],
)
def test_nothing_else_is_reached(page: Http, path: str) -> None:
    # By a socket: http.client refuses some of these paths itself.
    with socket.create_connection(("127.0.0.1", page.port), PATIENCE) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.split(b" ", 2)[1] in (b"400", b"404"), received
    assert SECRET not in received
    assert b"root:" not in received
    assert INDEX not in received


def test_api_is_as_it_was(page: Http) -> None:
    for path in ("/api", "/api/", "/api/missing", "/api/index.html", "/metrics/missing"):
        answer = page.ask("GET", path)
        assert (answer.status, answer.json) == (404, {"error": "Object Not Found", "reason": "Not Found"})
    assert page.ask("POST", "/api/missing").status == 404
    assert page.ask("GET", "/api/overview").status == 401
    assert Http(page.port).get("/api/whoami")["name"] == "guest"
    assert page.ask("GET", "/metrics").body.startswith(b"# TYPE rabbitmq_")


def test_files_are_only_read(page: Http) -> None:
    for method in ("POST", "PUT", "DELETE"):
        refused = page.ask(method, "/index.html")
        assert (refused.status, refused.headers["Allow"]) == (405, "GET,HEAD")


def test_without_a_page_it_says_where_the_api_is(broker: Running, tmp_path: Path) -> None:
    """A browser that is pointed at the port of a broker whose page is not built."""
    answer = StaticFiles(tmp_path / "none").answer("/")
    assert (answer.status, answer.content_type) == (200, "text")
    assert b"not built" in answer.octets()
    assert b"/api/overview" in answer.octets()
    nobody = broker.http(user=None)
    served = nobody.ask("GET", "/")
    assert served.status == 200
    assert nobody.ask("GET", "/missing").json == {"error": "Object Not Found", "reason": "Not Found"}
    assert Http(broker.prometheus_port, None).ask("GET", "/").status == 404


@pytest.mark.parametrize(
    ("name", "hashed"),
    [
        ("/assets/index-0a1b2c3d.js", True),
        ("/assets/index-DiwrgTda.css", True),
        ("/assets/vendor-re-act-B_x-3fAq.js.map", True),
        ("/index-0a1b2c3d.js/x.js", False),
        ("/user-settings.js", False),
        ("/User-Settings.js", False),
        ("/logo-20260131.png", False),
        ("/index.html", False),
        ("/0a1b2c3d.js", False),
        ("/a-0a1b2c3d", False),
        ("/a-0a1b2c3.js", False),
    ],
)
def test_hash_is_told_from_a_word(name: str, hashed: bool) -> None:
    assert has_hash(name) is hashed


def test_everything_is_below_the_path_prefix_too(page: Http) -> None:
    """SPEC §9.4: as a proxy passes it on that leaves paths as they are"""
    moved = page.ask("GET", "/ops/broker")
    assert (moved.status, moved.headers["Location"]) == (301, "/ops/broker/")
    assert page.ask("GET", "/ops/broker/").body == INDEX
    assert page.ask("GET", "/ops/broker/assets/index-0a1b2c3d.js").body == SCRIPT
    assert page.ask("GET", "/ops/broker/none").status == 404
    assert page.get("/ops/broker/api/auth") == {"oauth_enabled": False}
    assert page.ask("GET", "/ops/broker/api/overview").status == 401
    login = Http(page.port)
    assert login.get("/ops/broker/api/queues/%2F") == login.get("/api/queues/%2F") == []
    assert login.put("/ops/broker/api/queues/%2F/a%2Fb").status == 201
    assert login.get("/api/queues/%2F/a%2Fb")["name"] == "a/b"
    assert login.delete("/ops/broker/api/queues/%2F/a%2Fb").status == 204
