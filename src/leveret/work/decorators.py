"""Subscriptions for those who like decorators.

subscriptions = Subscriptions()

@subscriptions.on("pdf_events", type="Direct", routing_key="pdf_create")
def make_pdf(message):
    ...

asyncio.run(subscriptions.run("amqp://127.0.0.1"))
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from leveret.work.metadata import Exchange, Subscription
from leveret.work.runtime import URL, Runtime

F = TypeVar("F", bound=Callable[..., Any])


class Subscriptions:
    """What was decorated, as exchanges."""

    def __init__(self) -> None:
        self._exchanges: dict[str, Exchange] = {}

    @property
    def exchanges(self) -> list[Exchange]:
        return list(self._exchanges.values())

    def on(self, exchange: str, type: str = "Fanout", durable: bool = True, **fields: Any) -> Callable[[F], F]:
        """Have a function handle messages of this exchange; `fields` are a Subscription's. It is named as the function."""
        found = self._exchanges.setdefault(exchange, Exchange(exchange, type, durable))
        if (found.type, found.durable) != (type, durable):
            raise ValueError(f"exchange {exchange} is {found.type} and {'' if found.durable else 'not '}durable elsewhere")

        def subscribe(handler: F) -> F:
            one = Subscription(**{"name": handler.__name__, **fields, "handler": handler})
            known = self._exchanges[exchange]
            self._exchanges[exchange] = replace(known, subscriptions=(*known.subscriptions, one))
            return handler

        return subscribe

    async def run(self, url: str = URL, **options: Any) -> bool:
        """Work until stopped, or until no worker is left; `options` are a Runtime's."""
        return await Runtime(url, self.exchanges, **options).run()
