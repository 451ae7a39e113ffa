"""What a policy would change, before it is set: what it matches, by the broker's own patterns, who wins, and what is lost.

Nothing is changed. The policies of the vhost are copied, the new one is put among them, and both are asked about each queue
and exchange.
"""

from collections.abc import Callable

from leveret.broker.arguments import queue_type
from leveret.broker.exchange import Exchange
from leveret.broker.policy import Policies, Policy
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.errors import PreconditionFailed
from leveret.management.api.policies import invalid, number
from leveret.management.api.queues import effective_definition
from leveret.management.http.json import JsonObject
from leveret.management.http.pause import Pause
from leveret.management.http.request import Request
from leveret.management.http.route import ADMINISTRATOR, POLICYMAKER, Route

SHOWN_MAX = 200


class Preview:
    """The policies as they would be, beside what they are."""

    def __init__(self, vhost: VirtualHost, policy: Policy, operator: bool) -> None:
        self._vhost = vhost
        self._policy = policy
        self._operator = operator
        current = vhost.operator_policies if operator else vhost.policies
        current.check(policy)
        self._after = Policies(operator)
        for one in current.by_name.values():
            self._after.put(one)
        self._after.put(policy)

    def of(self, subject: Queue | Exchange) -> JsonObject | None:
        """What it means for a queue or exchange; None if it is nothing to it, now and then."""
        kind = queue_type(subject.arguments) if isinstance(subject, Queue) else "exchange"
        now = subject.operator_policy if self._operator else subject.policy
        matches = self._policy.fits(kind, subject.name)
        if not matches and (now is None or now.name != self._policy.name):
            return None
        then = self._after.best(kind, subject.name)
        before = effective_definition(subject.policy, subject.operator_policy)
        both = (subject.policy, then) if self._operator else (then, subject.operator_policy)
        after = effective_definition(*both)
        view: JsonObject = {
            "name": subject.name,
            "kind": "queue" if isinstance(subject, Queue) else "exchange",
            "type": kind if isinstance(subject, Queue) else subject.kind,
            "matches": matches,
            "wins": then is self._policy,
            "now": None if now is None else {"name": now.name, "priority": now.priority},
            "then": None if then is None else {"name": then.name, "priority": then.priority},
            "before": before,
            "after": after,
            "changes": before != after,
        }
        if isinstance(subject, Queue):
            view["messages_ready"] = subject.ready_count
        return view


async def preview(request: Request, operator: bool) -> JsonObject:
    pattern, definition = request.need("pattern", "definition")
    body, vhost = request.body, request.vhost
    try:
        # It says itself what is wrong with any of these.
        make: Callable[..., Policy] = Policy
        apply_to = body.get("apply-to") or "all"
        policy = make(request.name("name"), pattern, definition, number(body.get("priority") or 0), apply_to)
        found = Preview(vhost, policy, operator)
    except PreconditionFailed as error:
        raise invalid(error) from None
    items: list[JsonObject] = []
    counts = {"total": 0, "matched": 0, "changed": 0}
    pause = Pause()
    subjects: list[Queue | Exchange] = [*vhost.queues.values(), *vhost.exchanges.values()]
    async for group in pause.groups(subjects):
        for subject in group:
            counts["total"] += 1
            view = None if subject.deleted else found.of(subject)
            if view is None:
                continue
            counts["matched"] += bool(view["matches"])
            counts["changed"] += bool(view["changes"])
            items.append(view)
    # What changes is to be seen first.
    items.sort(key=lambda view: (not view["changes"], str(view["name"])))
    return {**counts, "items": items[:SHOWN_MAX]}


async def preview_policy(request: Request) -> JsonObject:
    """What a policy would match and change if it were set; it is not."""
    return await preview(request, operator=False)


async def preview_operator_policy(request: Request) -> JsonObject:
    """What an operator's policy would match and change if it were set; it is not."""
    return await preview(request, operator=True)


ROUTES = [
    Route("POST", "/api/policies/{vhost}/{name}/preview", POLICYMAKER, preview_policy),
    Route("POST", "/api/operator-policies/{vhost}/{name}/preview", ADMINISTRATOR, preview_operator_policy),
]
