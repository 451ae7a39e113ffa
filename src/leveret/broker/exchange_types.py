"""The types of exchanges that a delayed one can hold, by the names clients declare them with.

All types, the delayed one among them, are `EXCHANGE_TYPES` in `declaration.py`.
"""

from leveret.broker.consistent_hash import ConsistentHashExchange
from leveret.broker.deduplication_exchange import DeduplicationExchange
from leveret.broker.exchange import DirectExchange, Exchange, FanoutExchange
from leveret.broker.headers import HeadersExchange
from leveret.broker.random_choice import RandomExchange
from leveret.broker.recent_history import RecentHistoryExchange
from leveret.broker.topic import TopicExchange

INNER_TYPES: dict[str, type[Exchange]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "topic": TopicExchange,
    "headers": HeadersExchange,
    "x-consistent-hash": ConsistentHashExchange,
    "x-message-deduplication": DeduplicationExchange,
    "x-random": RandomExchange,
    "x-recent-history": RecentHistoryExchange,
}
