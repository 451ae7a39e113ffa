"""Secrets at rest: what is stored sealed can be read with a key only, which is in a file elsewhere.

The key of the sealing is the SHA-256 of the file; the sealing is Fernet's, AES-128 in CBC mode with an HMAC. It needs the
package cryptography. Without a key things are stored as they are, and what was stored so is read with a key too.
"""

import hashlib
import json
from base64 import urlsafe_b64encode
from typing import Protocol

SEALED = "sealed"
KEY_MIN = 16
NO_PACKAGE = "secrets_key_file needs the package cryptography: pip install 'leveret[secrets]'"


class BadSeal(Exception):
    """There is no key, or another one; the text says what to do."""


class Cipher(Protocol):
    """As much of Fernet as is needed."""

    def encrypt(self, data: bytes) -> bytes: ...

    def decrypt(self, token: bytes) -> bytes: ...


class Seal:
    """A key, or none."""

    def __init__(self, key: bytes | None = None) -> None:
        """BadSeal if the key is too short, or the package is not there."""
        self._cipher: Cipher | None = None if key is None else _cipher(key)

    def close(self, facts: dict[str, object]) -> dict[str, object]:
        """What is stored of a row with secrets in it."""
        if self._cipher is None:
            return facts
        return {SEALED: self._cipher.encrypt(json.dumps(facts).encode()).decode()}

    def open(self, row: dict[str, object], title: str) -> dict[str, object]:
        """The row as it was, or BadSeal."""
        if SEALED not in row:
            return row
        if self._cipher is None:
            raise BadSeal(f"{title} is sealed: set secrets_key_file to the file that it was sealed with")
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - an extra

        try:
            found: dict[str, object] = json.loads(self._cipher.decrypt(str(row[SEALED]).encode()))
        except InvalidToken:
            raise BadSeal(f"{title} is sealed with another key than that in secrets_key_file") from None
        return found


def _cipher(key: bytes) -> Cipher:
    if len(key.strip()) < KEY_MIN:
        raise BadSeal(f"the file of secrets_key_file must hold at least {KEY_MIN} octets")
    try:
        from cryptography.fernet import Fernet  # noqa: PLC0415 - an extra
    except ImportError:
        raise BadSeal(NO_PACKAGE) from None
    return Fernet(urlsafe_b64encode(hashlib.sha256(key.strip()).digest()))
