"""In which state queues are that an operator asks for: those that grow, have no consumers, are stuck, paused or idle."""

from collections.abc import Callable, Iterable, Iterator

from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.management.http.answer import bad_request
from leveret.management.http.request import Request
from leveret.management.statistics.trend import growth_of, silent_since

Found = tuple[VirtualHost, Queue]


def is_growing(request: Request, queue: Queue) -> bool:
    return growth_of(request.statistics.of(queue)) is not None


def is_stuck(request: Request, queue: Queue) -> bool:
    holds = queue.consumer_count and queue.unacked_count
    return bool(holds) and silent_since(request.statistics.of(queue)) is not None


def is_unattended(request: Request, queue: Queue) -> bool:
    return bool(queue.ready_count) and not queue.consumer_count


def is_paused(request: Request, queue: Queue) -> bool:
    return queue.rotation.paused


def is_idle(request: Request, queue: Queue) -> bool:
    return request.statistics.idle_since(queue, queue.created_at) is not None and not queue.ready_count


STATES: dict[str, Callable[[Request, Queue], bool]] = {
    "growing": is_growing,
    "no_consumers": is_unattended,
    "stuck": is_stuck,
    "paused": is_paused,
    "idle": is_idle,
}
DEAD_LETTERS = "dead_letters"


def in_state(request: Request, found: Iterable[Found]) -> Iterator[Found]:
    """Of these queues those in the `state` that is asked for, if one is."""
    state = request.query.get("state", "")
    if not state:
        return iter(found)
    if state == DEAD_LETTERS:
        dead = dead_letter_queues(request.vhosts())
        return (one for one in found if one[1] in dead)
    is_so = STATES.get(state)
    if is_so is None:
        raise bad_request(f"[state] must be one of {', '.join([*STATES, DEAD_LETTERS])}, not {state}")
    return (one for one in found if is_so(request, one[1]))


def dead_letter_queues(vhosts: Iterable[VirtualHost]) -> set[Queue]:
    """The queues to which others' dead letters go."""
    found: set[Queue] = set()
    for vhost in vhosts:
        for name, keys in dead_letter_exchanges(vhost).items():
            exchange = vhost.exchanges.get(name)
            if name:
                bound = () if exchange is None else [binding.destination for binding in exchange.bindings.values()]
                found.update(one for one in bound if isinstance(one, Queue))
            else:
                found.update(vhost.queues[key] for key in keys if key in vhost.queues)
    return found


def dead_letter_exchanges(vhost: VirtualHost) -> dict[str, set[str]]:
    """Where the queues of a vhost send what they drop: exchanges, each with the routing keys."""
    found: dict[str, set[str]] = {}
    for queue in list(vhost.queues.values()):
        if queue.settings.dead_letter_exchange is not None:
            found.setdefault(queue.settings.dead_letter_exchange, set()).add(queue.settings.dead_letter_routing_key or "")
    return found
