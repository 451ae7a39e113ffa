"""The kinds of things that are defined, in the order in which one needs the other.

In a definitions file they are sections, each a list of entries; in storage they are rows with a kind, a vhost and a name.
The two differ: rows have topic permissions in the permission's row, and operator policies of their own; files have operator
policies, and the limits of vhosts, among the parameters.
"""

from collections.abc import Callable

from leveret.broker.broker import Broker
from leveret.definitions import binding, exchange, parameter, permission, policy, queue, token, user, vhost
from leveret.definitions.item import Facts, Item

Read = Callable[[Broker, Item], None]
Restore = Callable[[Broker, str, str, Facts], None]

# What is inside of a vhost, and everything.
VHOST_SECTIONS: dict[str, Read] = {
    "parameters": parameter.read,
    "policies": policy.read,
    "exchanges": exchange.read,
    "queues": queue.read,
    "bindings": binding.read,
}
SECTIONS: dict[str, Read] = {
    "vhosts": vhost.read,
    "users": user.read,
    "permissions": permission.read,
    "topic_permissions": permission.read_topic,
    "global_parameters": parameter.read_global,
    **VHOST_SECTIONS,
}
ROWS: dict[str, Restore] = {
    "vhost": vhost.restore,
    "user": user.restore,
    "token": token.restore,
    "permission": permission.restore,
    "global_parameter": parameter.restore_global,
    "parameter": parameter.restore,
    "policy": policy.restore,
    "operator_policy": policy.restore_operators,
    "exchange": exchange.restore,
    "queue": queue.restore,
    "transient_queue": queue.restore_transient,
    "binding": binding.restore,
}
