"""Workers declared as data: an exchange, which of its messages to consume, and what handles them.

    from leveret.work import Exchange, Runtime, Subscription

    def make_pdf(message):
        ...

    create = Subscription(name="create", routing_key="pdf_create", handler=make_pdf)
    await Runtime("amqp://127.0.0.1", [Exchange("pdf_events", type="Direct", subscriptions=[create])]).run()

`leveret work FILE…` runs subscriptions from files. Both work with any AMQP 0-9-1 broker.
"""

from leveret.work.message import Message
from leveret.work.runtime import Runtime, Subscriptions
from leveret.work.subscription import Exchange, Subscription
from leveret.work.validation import BadSubscriptions

__all__ = ["BadSubscriptions", "Exchange", "Message", "Runtime", "Subscription", "Subscriptions"]
