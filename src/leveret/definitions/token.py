"""API keys, as rows; no file has them."""

from leveret.broker.broker import Broker
from leveret.broker.token import Token
from leveret.definitions.item import Facts


def restore(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    if row["user"] in broker.users:
        broker.add_token(Token(name, row["user"], row["digest"], tuple(row["scopes"]), row["created_at"], row["expires_at"]))
