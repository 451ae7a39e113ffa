"""Handlers: a function, a coroutine function, a command, or a URL. All of them raise if they fail."""

import http.client
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeGuard

from leveret.work.http_post import HttpPost
from leveret.work.message import Message
from leveret.work.process import Process
from leveret.work.subscription import Handler, import_function

MessageHandler = Callable[[Message], object]
CoroutineHandler = Callable[[Message], Awaitable[object]]


class HandlerFailed(Exception):
    """A command or URL that did not do its work."""


def message_handler(handler: Handler, time_limit_ms: int) -> MessageHandler:
    """A function of the message that does what a subscription's Handler says."""
    if isinstance(handler, str):
        if handler.startswith(("http://", "https://")):
            return UrlHandler(handler, time_limit_ms / 1000)
        return import_function(handler)
    if isinstance(handler, Sequence):
        return CommandHandler(handler, time_limit_ms / 1000)
    return handler


def is_coroutine_handler(handler: MessageHandler) -> TypeGuard[CoroutineHandler]:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


class CommandHandler:
    """Runs a command for each message, without a shell: the body on stdin, exit status 0 is success."""

    def __init__(self, words: Sequence[str], time_limit_s: float) -> None:
        self._words = list(words)
        self._time_limit_s = time_limit_s
        self._process: Process | None = None

    def __call__(self, message: Message) -> None:
        self._process = Process(self._words, message.body, variables_of(message))
        try:
            status, stderr = self._process.run(self._time_limit_s)
        finally:
            self._process = None
        details = f": {stderr}" if stderr else ""
        if status is None:
            raise HandlerFailed(f"{self._words[0]} took more than {self._time_limit_s:g} s{details}")
        if status:
            raise HandlerFailed(f"{self._words[0]} ended with {status}{details}")

    def kill(self) -> None:
        """End the command that runs now, from another thread."""
        process = self._process
        if process is not None:
            process.kill()


def variables_of(message: Message) -> dict[str, str]:
    """The environment variables that tell a command about its message."""
    properties = message.properties
    fields = {
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
    return {f"LEVERET_{name}": value for name, value in fields.items() if value and "\0" not in value}


class UrlHandler:
    """POSTs each body to a URL: 2xx is success, a redirect is not followed."""

    def __init__(self, url: str, time_limit_s: float) -> None:
        self._post = HttpPost(url)
        self._time_limit_s = time_limit_s

    def __call__(self, message: Message) -> None:
        try:
            status, answer = self._post.send(message.body, http_headers_of(message), self._time_limit_s)
        except TimeoutError:
            raise HandlerFailed(f"{self._post.shown} took more than {self._time_limit_s:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise HandlerFailed(f"{self._post.shown}: {str(error) or type(error).__name__}") from None
        if not 200 <= status < 300:
            raise HandlerFailed(f"{self._post.shown} answered {status}" + (f": {answer}" if answer else ""))


def http_headers_of(message: Message) -> dict[str, str]:
    """The HTTP headers that tell a URL about its message."""
    variables = variables_of(message)
    headers = {f"X-{name.replace('_', '-').title()}": printable(value) for name, value in variables.items()}
    headers["Content-Type"] = printable(message.properties.content_type or "application/octet-stream")
    if message.properties.content_encoding:
        headers["Content-Encoding"] = printable(message.properties.content_encoding)
    return headers


def printable(text: str) -> str:
    """A text as an HTTP header may have it: printable ASCII."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)
