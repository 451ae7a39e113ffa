"""Certificates for tests, made by openssl: an authority, and what it signs."""

import subprocess
from pathlib import Path
from typing import NamedTuple

HERE = "DNS:localhost,IP:127.0.0.1"
CURVE = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1")


class Pair(NamedTuple):
    """A certificate and its key, both files in PEM form."""

    certificate: Path
    key: Path


class Authority:
    """Who signs; `certificate` is what has to be trusted for that."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = name
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        openssl("genpkey", *CURVE, "-out", str(self._key))
        openssl("req", "-x509", "-new", "-key", str(self._key), "-subj", f"/CN={name}", "-out", str(self.certificate))

    def issue(self, name: str, *, names: str = HERE, days: int = 100, subject: str = "") -> Pair:
        """Sign one for files of this name; with `days` below 0 it has expired. `subject` as openssl takes it."""
        folder = self._folder
        found, key, request = (folder / f"{self._name}-{name}.{end}" for end in ("pem", "key", "csr"))
        extensions = folder / "extensions"
        extensions.write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
        openssl("genpkey", *CURVE, "-out", str(key))
        wanted = ("-subj", subject or f"/CN={name}", "-out", str(request))
        openssl("req", "-new", "-utf8", "-multivalue-rdn", "-key", str(key), *wanted)
        signing = ("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial", "-days", str(days))
        openssl("x509", "-req", "-in", str(request), *signing, "-extfile", str(extensions), "-out", str(found))
        return Pair(found, key)


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
