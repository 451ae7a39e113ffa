"""An issuer of tokens: keys that can be rotated, and a server of them over HTTP."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType
from typing import Self

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

ID = "leveret"
ISSUER = "https://issuer.example"


class Issuer:
    """Signs tokens with its newest key."""

    def __init__(self) -> None:
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.asked = 0
        self.rotate()

    def rotate(self) -> None:
        """Sign with a new key from now on; the others are gone."""
        self.keys = {f"key-{time.monotonic_ns()}": rsa.generate_private_key(65_537, 2048)}

    @property
    def jwks(self) -> str:
        found = []
        for kid, key in self.keys.items():
            facts = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
            found.append({**facts, "kid": kid, "alg": "RS256", "use": "sig"})
        return json.dumps({"keys": found})

    def token(self, *scopes: str, seconds: float = 600, **claims: object) -> str:
        kid, key = next(reversed(self.keys.items()))
        payload = {
            "sub": "shop",
            "aud": ID,
            "iss": ISSUER,
            "exp": time.time() + seconds,  # noqa: TID251 - the issuer's own
            "scope": " ".join(f"{ID}.{scope}" for scope in scopes),
            **claims,
        }
        payload = {name: value for name, value in payload.items() if value is not None}
        return jwt.encode(payload, key, algorithm="RS256", headers={"kid": kid})


class KeyServer:
    """Serves an issuer's keys."""

    def __init__(self, issuer: Issuer) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                data = issuer.jwks.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Not on stderr."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/keys"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
