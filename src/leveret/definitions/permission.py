"""What users may do in vhosts, and with which routing keys on topic exchanges."""

from leveret.broker.broker import Broker
from leveret.broker.rights import Rights
from leveret.definitions.definition import Definition
from leveret.definitions.item import Facts, Item


class PermissionDefinition(Definition, frozen=True):
    user: str
    vhost: str = "/"
    configure: str = ""
    write: str = ""
    read: str = ""

    @property
    def title(self) -> str:
        return self.user

    def make(self, broker: Broker) -> None:
        broker.set_permissions(self.user, self.vhost, self.configure, self.write, self.read)


class TopicPermissionDefinition(Definition, frozen=True):
    user: str
    exchange: str
    vhost: str = "/"
    write: str = ""
    read: str = ""

    @property
    def title(self) -> str:
        return self.user

    def make(self, broker: Broker) -> None:
        broker.set_topic_permissions(self.user, self.vhost, self.exchange, self.write, self.read)


def facts(rights: Rights) -> Facts:
    patterns = {name: rights.pattern(name) for name in ("configure", "write", "read")}
    return {"user": rights.user_name, "vhost": rights.vhost_name, **patterns}


def topic_facts(rights: Rights, exchange: str) -> Facts:
    write, read = rights.topics[exchange]
    return {"user": rights.user_name, "vhost": rights.vhost_name, "exchange": exchange, "write": write, "read": read}


def read(broker: Broker, item: Item) -> None:
    patterns = item.texts("configure", "write", "read")
    broker.set_permissions(item.name("user"), item.vhost(broker).name, *patterns)


def read_topic(broker: Broker, item: Item) -> None:
    exchange, write, read = item.name("exchange"), item.text("write"), item.text("read")
    broker.set_topic_permissions(item.name("user"), item.vhost(broker).name, exchange, write, read)


def restore(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    """Both of them: storage has a row for a user in a vhost."""
    rights = broker.find_user(name).rights_in(vhost)
    if row["granted"]:
        rights.grant(*row["patterns"])
    for exchange, (write, read) in row["topics"].items():
        rights.grant_topics(exchange, write, read)
