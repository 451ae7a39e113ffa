"""Definitions out of a broker, as RabbitMQ's file has them: what is defined here, to be defined in another.

Exported are vhosts, users, rights, policies, parameters, exchanges, queues and bindings; not what belongs to a connection,
and not what every vhost has.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import msgspec

from leveret.broker.binding import Binding
from leveret.broker.broker import Broker
from leveret.broker.exchange import Exchange
from leveret.broker.password import ARGON2ID
from leveret.broker.queue import Queue
from leveret.broker.settings import RABBITMQ_VERSION
from leveret.broker.vhost import VirtualHost
from leveret.definitions import binding, exchange, parameter, permission, policy, queue, user, vhost
from leveret.definitions.exchange import SYSTEM_EXCHANGES
from leveret.definitions.file import title_of
from leveret.definitions.item import Facts

log = logging.getLogger("leveret.definitions")


class Section(NamedTuple):
    """Things of one kind, how they are sorted, and what the file says of one."""

    things: Iterable[Any]
    key: Callable[[Any], Any]
    facts: Callable[[Any], Facts]


def export(broker: Broker) -> Facts:
    """Everything defined in a broker."""
    found = export_head(broker)
    for _, of_vhost in sorted(broker.vhosts.items()):
        for kind, items in _inside(of_vhost).items():
            found.setdefault(kind, []).extend({"vhost": of_vhost.name, **item} for item in items)
    return without_unwritable(found)


def export_head(broker: Broker) -> Facts:
    """What is defined in a broker besides what is in its vhosts."""
    users = [found for _, found in sorted(broker.users.items())]
    warn_of_argon2([found.name for found in users if found.hashing == ARGON2ID])
    all_rights = [rights for found in users for _, rights in sorted(found.rights.items())]
    return {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "RabbitMQ",
        "product_version": RABBITMQ_VERSION,
        "users": [user.facts(found) for found in users],
        "vhosts": [vhost.facts(found) for _, found in sorted(broker.vhosts.items())],
        "permissions": [permission.facts(rights) for rights in all_rights if rights.granted],
        "topic_permissions": [
            permission.topic_facts(rights, name) for rights in all_rights for name in sorted(rights.topics)
        ],
        "global_parameters": [parameter.global_facts(found) for found in sorted(broker.parameters.items())],
    }


def export_vhost(of_vhost: VirtualHost) -> Facts:
    """What is defined in a vhost, to be imported into any."""
    return without_unwritable({**export_vhost_head(), **_inside(of_vhost)})


def export_vhost_head() -> Facts:
    return {"rabbit_version": RABBITMQ_VERSION}


def _inside(of_vhost: VirtualHost) -> dict[str, list[Facts]]:
    return {
        kind: [section.facts(thing) for thing in sorted(section.things, key=section.key)]
        for kind, section in sections(of_vhost).items()
    }


def sections(of_vhost: VirtualHost) -> dict[str, Section]:
    """What is in a vhost. Things may be taken one by one while the vhost changes: bindings last, and only between those that
    were there for both.
    """
    parameters, policies = list(of_vhost.parameters.all().items()), list(of_vhost.policies.by_name.values())
    exchanges = list(of_vhost.exchanges.values())
    queues = [found for found in of_vhost.queues.values() if found.owner is None]
    own_exchanges = (found for found in exchanges if found.name not in SYSTEM_EXCHANGES)
    return {
        "parameters": Section(parameters, itemgetter(0), parameter.facts),
        "policies": Section(policies, attrgetter("name"), policy.facts),
        "queues": Section(queues, attrgetter("name"), partial(queue.facts, of_vhost)),
        "exchanges": Section(own_exchanges, attrgetter("name"), exchange.facts),
        "bindings": Section(_bindings_between(exchanges, queues), binding.order, binding.facts),
    }


def _bindings_between(exchanges: list[Exchange], queues: list[Queue]) -> Iterator[Binding]:
    known: set[object] = {*exchanges, *queues}
    for source in exchanges:
        for found in list(source.bindings.values()):
            if found.destination in known:
                yield found


def without_unwritable(found: Facts) -> Facts:
    """Without what has octets in its names that are no text, which JSON cannot say."""
    for kind, items in found.items():
        if isinstance(items, list) and not is_text(items):
            found[kind] = [item for item in items if is_text(item)]
            warn_left_out(kind, [item for item in items if not is_text(item)])
    return found


def warn_left_out(kind: str, items: list[Facts]) -> None:
    """Say what is not in the file, since a name in it is no text."""
    # Only names: users have passwords.
    titles = ", ".join(ascii(kind + title_of(item)) for item in items)
    log.warning("not exported, since a name in it is no text: %s", titles)


def warn_of_argon2(names: list[str]) -> None:
    """Say whose passwords no RabbitMQ can read."""
    if names:
        log.warning("exported with argon2id passwords, which RabbitMQ cannot read: %s", ", ".join(map(ascii, names)))


def is_text(value: object) -> bool:
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return False
    return True
