"""Subscriptions that run themselves: an exchange, which of its messages are wanted, and what handles them.

    from leveret.work import Exchange, Runtime, Subscription

    def make_pdf(message):
        ...

    create = Subscription(name="create", routing_key="pdf_create", handler=make_pdf)
    await Runtime("amqp://127.0.0.1", [Exchange("pdf_events", type="Direct", subscriptions=[create])]).run()

`leveret work FILE…` does the same with subscriptions that stand in files. Works with any AMQP 0-9-1 broker.
"""

from leveret.work.checking import BadSubscriptions
from leveret.work.decorators import Subscriptions
from leveret.work.message import Message
from leveret.work.metadata import Exchange, Subscription
from leveret.work.runtime import Runtime

__all__ = ["BadSubscriptions", "Exchange", "Message", "Runtime", "Subscription", "Subscriptions"]
