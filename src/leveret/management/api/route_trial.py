"""Where a message would go, told without publishing it."""

from leveret.broker.queue import Queue
from leveret.broker.route_trial import Step, Trial
from leveret.management.api.exchanges import find_exchange
from leveret.management.http.json import JsonObject
from leveret.management.http.json_table import parse_key, parse_properties, parse_table, to_json
from leveret.management.http.request import Request
from leveret.management.http.route import VHOST, Route

# Of the bindings that do not fit so many are shown.
MISSES_MAX = 200


def try_message(request: Request) -> JsonObject:
    """Where a message with this `routing_key`, `headers` and `properties` would go, and why: each binding, hit or miss."""
    exchange = find_exchange(request)
    properties = parse_properties(request.body.get("properties"))
    if request.body.get("headers"):
        properties.headers = parse_table(request.body["headers"], "headers")
    trial = Trial(request.vhost, parse_key(request.body.get("routing_key")), properties)
    trial.run(exchange)
    hits = [step for step in trial.steps if step.fits]
    misses = [step for step in trial.steps if not step.fits]
    return {
        "queues": [queue_view(queue) for queue in trial.queues],
        "hits": [step_view(step) for step in hits],
        "misses": [step_view(step) for step in misses[:MISSES_MAX]],
        "miss_count": len(misses),
        "random": trial.random,
        "complete": trial.complete,
    }


def queue_view(queue: Queue) -> JsonObject:
    return {"name": queue.name, "messages_ready": queue.ready_count, "consumers": queue.consumer_count}


def step_view(step: Step) -> JsonObject:
    binding, is_queue = step.binding, isinstance(step.destination, Queue)
    view: JsonObject = {
        "source": step.source.name,
        "source_type": step.source.kind,
        "destination": step.destination.name,
        "destination_type": "queue" if is_queue else "exchange",
        "depth": step.depth,
        "alternate": binding is None,
        "routing_key": None if binding is None else binding.routing_key,
        "arguments": {} if binding is None else to_json(binding.arguments),
    }
    return view


ROUTES = [Route("POST", "/api/exchanges/{vhost}/{exchange}/route", VHOST, try_message)]
