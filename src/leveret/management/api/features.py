"""What this broker can do, how it is set up, and what is asked of clusters."""

from typing import Any

import msgspec

from leveret.definitions.settings import Definitions
from leveret.management.answers import Answer, bad_request, done
from leveret.management.api.users import check_node
from leveret.management.asking import Ask
from leveret.management.lists import listed
from leveret.management.routes import ADMINISTRATOR, USER, Result, Route

# Those of RabbitMQ 3.13's feature flags that say something about this broker too. None can be off.
FEATURES = {
    "drop_unroutable_metric": "Messages that reach no queue are counted",
    "empty_basic_get_metric": "basic.get that finds nothing is counted",
    "implicit_default_bindings": "The default exchange needs no stored bindings",
    "quorum_queue": "x-queue-type: quorum",
    "user_limits": "Limits of a user's connections and channels",
    "virtual_host_metadata": "A vhost has a description and tags",
}


def get_extensions(ask: Ask) -> Result:
    """The page's own parts."""
    return [{"javascript": "dispatcher.js"}, {"javascript": "shovel.js"}]


def feature_view(name: str) -> dict[str, Any]:
    """A feature flag."""
    return {
        "name": name,
        "desc": FEATURES[name],
        "doc_url": "",
        "state": "enabled",
        "stability": "required",
        "provided_by": "rabbit",
    }


def get_feature_flags(ask: Ask) -> Answer:
    """What can be done; nothing has to be switched on."""
    return listed(ask.query, FEATURES, feature_view, lambda name: (name,))


def enable_feature_flag(ask: Ask) -> Result:
    """Switch on what is on already."""
    if ask.path["name"] not in FEATURES:
        raise bad_request("unsupported")
    return done()


def get_deprecated_features(ask: Ask) -> Result:
    """What will go; nothing does."""
    return []


def rebalance_queues(ask: Ask) -> Result:
    """Spread queues evenly; on one node they are."""
    return done()


def reset(ask: Ask) -> Result:
    """Forget statistics that were gathered for this API; they are counted where they arise."""
    if "node" in ask.path:
        check_node(ask)
    return done()


def get_effective_config(ask: Ask) -> Answer:
    """The settings in use, without users and their passwords."""
    config = ask.node.config
    names = [name for name in config.__struct_fields__ if name not in Definitions.__struct_fields__]
    lines = [f"{name} = {msgspec.json.encode(getattr(config, name)).decode()}\n" for name in names]
    return Answer("".join(lines).encode(), content_type="text")


ROUTES = [
    Route("GET", "/api/extensions", USER, get_extensions),
    Route("GET", "/api/feature-flags", USER, get_feature_flags),
    Route("PUT", "/api/feature-flags/{name}/enable", ADMINISTRATOR, enable_feature_flag),
    Route("GET", "/api/deprecated-features", USER, get_deprecated_features),
    Route("GET", "/api/deprecated-features/used", USER, get_deprecated_features),
    Route("POST", "/api/rebalance/queues", ADMINISTRATOR, rebalance_queues),
    Route("DELETE", "/api/reset", ADMINISTRATOR, reset),
    Route("DELETE", "/api/reset/{node}", ADMINISTRATOR, reset),
    Route("GET", "/api/config/effective", ADMINISTRATOR, get_effective_config),
]
