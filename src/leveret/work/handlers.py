"""What handles a message: a function, a coroutine function, a command, or a URL. All raise if they fail."""

import http.client
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from leveret.work.checking import function_named
from leveret.work.message import Message
from leveret.work.metadata import Handler
from leveret.work.post import Post
from leveret.work.process import Process

Handle = Callable[[Message], Any]


class HandlerFailed(Exception):
    """A command or URL that did not do its work."""


def handle_of(handler: Handler, time_limit_ms: int) -> Handle:
    """A function of the message that does what `handler` says."""
    if isinstance(handler, str):
        if handler.startswith(("http://", "https://")):
            return Url(handler, time_limit_ms / 1000)
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
        self._process: Process | None = None

    def __call__(self, message: Message) -> None:
        self._process = Process(self._words, message.body, facts(message))
        try:
            status, said = self._process.run(self._time_limit_s)
        finally:
            self._process = None
        about = f": {said}" if said else ""
        if status is None:
            raise HandlerFailed(f"{self._words[0]} took more than {self._time_limit_s:g} s{about}")
        if status:
            raise HandlerFailed(f"{self._words[0]} ended with {status}{about}")

    def give_up(self) -> None:
        """End what is running now; the worker ends."""
        process = self._process
        if process is not None:
            process.kill()


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


class Url:
    """POSTs each body to a URL: 2xx is success, a redirection is not followed."""

    def __init__(self, url: str, time_limit_s: float) -> None:
        self._post = Post(url)
        self._time_limit_s = time_limit_s

    def __call__(self, message: Message) -> None:
        try:
            status, said = self._post.send(message.body, headers_of(message), self._time_limit_s)
        except TimeoutError:
            raise HandlerFailed(f"{self._post.shown} took more than {self._time_limit_s:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise HandlerFailed(f"{self._post.shown}: {str(error) or type(error).__name__}") from None
        if not 200 <= status < 300:
            raise HandlerFailed(f"{self._post.shown} answered {status}" + (f": {said}" if said else ""))


def headers_of(message: Message) -> dict[str, str]:
    """The facts as HTTP headers."""
    headers = {f"X-{name.replace('_', '-').title()}": quotable(value) for name, value in facts(message).items()}
    headers["Content-Type"] = quotable(message.properties.content_type or "application/octet-stream")
    if message.properties.content_encoding:
        headers["Content-Encoding"] = quotable(message.properties.content_encoding)
    return headers


def quotable(text: str) -> str:
    """A text as an HTTP header may have it."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)
