"""Feature flags, the effective settings, and what only means something in a cluster."""

from collections.abc import Iterator

import msgspec

from leveret.definitions.settings import Definitions
from leveret.management.http.answer import Answer, bad_request, done
from leveret.management.http.json import JsonObject
from leveret.management.http.list_answer import answer_list
from leveret.management.http.request import Request
from leveret.management.http.route import ADMINISTRATOR, USER, Result, Route

# Those of RabbitMQ 3.13's feature flags that say something about this broker too. None can be off.
FEATURES = {
    "drop_unroutable_metric": "Messages that reach no queue are counted",
    "empty_basic_get_metric": "basic.get that finds nothing is counted",
    "implicit_default_bindings": "The default exchange needs no stored bindings",
    "quorum_queue": "x-queue-type: quorum",
    "user_limits": "Limits of a user's connections and channels",
    "virtual_host_metadata": "A vhost has a description and tags",
}


def get_extensions(request: Request) -> Result:
    """The extensions of RabbitMQ's web page."""
    return [{"javascript": "dispatcher.js"}, {"javascript": "shovel.js"}]


def feature_view(name: str) -> JsonObject:
    """A feature flag."""
    return {
        "name": name,
        "desc": FEATURES[name],
        "doc_url": "",
        "state": "enabled",
        "stability": "required",
        "provided_by": "rabbit",
    }


def get_feature_flags(request: Request) -> Answer:
    """The feature flags; all of them are enabled."""
    return answer_list(request.query, FEATURES, feature_view, lambda name: (name,))


def enable_feature_flag(request: Request) -> Result:
    """Enable a feature flag; all of them are enabled already."""
    if request.path["name"] not in FEATURES:
        raise bad_request("unsupported")
    return done()


def get_deprecated_features(request: Request) -> Result:
    """The deprecated features; there are none."""
    return []


def rebalance_queues(request: Request) -> Result:
    """Rebalance queues; on a single node there is nothing to do."""
    return done()


def reset(request: Request) -> Result:
    """Reset the statistics database; there is none here, so nothing is lost."""
    if "node" in request.path:
        request.check_node()
    return done()


def get_effective_config(request: Request) -> Answer:
    """The settings in effect, without users and their passwords."""
    config = request.node.config
    names = [name for name in config.__struct_fields__ if name not in Definitions.__struct_fields__]
    lines = [line for name in names for line in toml_lines(name, msgspec.to_builtins(getattr(config, name)))]
    return Answer("\n".join([*lines, ""]).encode(), content_type="text")


def toml_lines(name: str, value: object) -> Iterator[str]:
    """A setting as TOML; of a table, each of its settings. What is None is not said, as in a file."""
    if isinstance(value, dict):
        for part, inner in value.items():
            plain = part.replace("_", "").isalnum() and part.isascii()
            yield from toml_lines(f"{name}.{part if plain else msgspec.json.encode(part).decode()}", inner)
    elif value is not None:
        yield f"{name} = {msgspec.json.encode(value).decode()}"


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
