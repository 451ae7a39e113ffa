"""What handles a message: a function, a coroutine function, a command, or a URL. All raise if they fail."""

import http.client
import inspect
import os
import signal
import ssl
import subprocess
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from leveret.work.checking import function_named
from leveret.work.message import Message
from leveret.work.metadata import Handler

SAID_MAX = 1000

Handle = Callable[[Message], Any]


class HandlerFailed(Exception):
    """A command or URL that did not do its work."""


def handle_of(handler: Handler, time_limit_ms: int) -> Handle:
    """A function of the message that does what `handler` says."""
    if isinstance(handler, str):
        if handler.startswith(("http://", "https://")):
            return Post(handler, time_limit_ms / 1000)
        return function_named(handler)
    if isinstance(handler, Sequence):
        return Command(handler, time_limit_ms / 1000)
    return handler


def is_async(handle: Handle) -> bool:
    return inspect.iscoroutinefunction(handle) or inspect.iscoroutinefunction(getattr(handle, "__call__", None))  # noqa: B004


class Command:
    """Runs a command for each message, without a shell: the body on stdin, exit status 0 is success."""

    def __init__(self, words: Sequence[str], time_limit_s: float) -> None:
        self._words = list(words)
        self._time_limit_s = time_limit_s

    def __call__(self, message: Message) -> None:
        # In a group of its own, so that what it has started ends with it.
        process = subprocess.Popen(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **facts(message)},
            start_new_session=True,
        )
        with process:
            try:
                _, said = process.communicate(message.body, self._time_limit_s)
            except subprocess.TimeoutExpired:
                raise HandlerFailed(f"{self._words[0]} took more than {self._time_limit_s:g} s") from None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            about = said[-SAID_MAX:].decode(errors="replace").strip()
            raise HandlerFailed(f"{self._words[0]} ended with {process.returncode}" + (f": {about}" if about else ""))


def facts(message: Message) -> dict[str, str]:
    """What a command may want to know, as variables."""
    properties = message.properties
    found = {
        "EXCHANGE": message.exchange,
        "ROUTING_KEY": message.routing_key,
        "CONSUMER_ID": message.consumer_id,
        "MESSAGE_ID": properties.message_id,
        "CORRELATION_ID": properties.correlation_id,
        "REPLY_TO": properties.reply_to,
        "CONTENT_TYPE": properties.content_type,
        "CONTENT_ENCODING": properties.content_encoding,
        "TYPE": properties.type,
    }
    return {f"LEVERET_{name}": value for name, value in found.items() if value and "\0" not in value}


class Post:
    """POSTs each body to a URL: 2xx is success, a redirection is not followed."""

    def __init__(self, url: str, time_limit_s: float) -> None:
        parts = urlsplit(url)
        self._url = url
        self._host = parts.hostname or ""
        self._port = parts.port
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._time_limit_s = time_limit_s

    def __call__(self, message: Message) -> None:
        connection = self._connection()
        try:
            connection.request("POST", self._target, message.body, self._headers(message))
            answer = connection.getresponse()
            said = answer.read(SAID_MAX).decode(errors="replace").strip()
        except TimeoutError:
            raise HandlerFailed(f"{self._url} took more than {self._time_limit_s:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise HandlerFailed(f"{self._url}: {error}") from None
        finally:
            connection.close()
        if not 200 <= answer.status < 300:
            raise HandlerFailed(f"{self._url} answered {answer.status}" + (f": {said}" if said else ""))

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._time_limit_s, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._time_limit_s)

    def _headers(self, message: Message) -> dict[str, str]:
        headers = {f"X-{name.replace('_', '-').title()}": quotable(value) for name, value in facts(message).items()}
        headers["Content-Type"] = quotable(message.properties.content_type or "application/octet-stream")
        if message.properties.content_encoding:
            headers["Content-Encoding"] = quotable(message.properties.content_encoding)
        return headers


def quotable(text: str) -> str:
    """A text as an HTTP header may have it."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)
