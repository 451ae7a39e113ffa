"""Policies, and those of the operator."""

import re
from collections.abc import Callable

from leveret.broker.policy import Policies, Policy
from leveret.broker.vhost import VirtualHost
from leveret.errors import PreconditionFailed
from leveret.management.http.answer import Answer, Refused, bad_request, created, done, not_found
from leveret.management.http.json import Json, JsonObject
from leveret.management.http.list_answer import answer_list
from leveret.management.http.list_query import select_columns
from leveret.management.http.request import Request
from leveret.management.http.route import ADMINISTRATOR, POLICYMAKER, VHOST, Handler, Result, Route

WHOLE = re.compile(r"-?[0-9]{1,18}")

Named = tuple[VirtualHost, Policy]


def policy_view(named: Named) -> JsonObject:
    """A policy as the API shows it."""
    vhost, policy = named
    return {
        "vhost": vhost.name,
        "name": policy.name,
        "pattern": policy.pattern.text,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def invalid(error: PreconditionFailed) -> Refused:
    """RabbitMQ's answer to a parameter or policy that breaks a rule."""
    return bad_request(f"Validation failed\n\n{error}\n")


def number(value: Json) -> Json:
    """A number that a client wrote as text; anything else as it is, for the model to refuse."""
    return int(value) if isinstance(value, str) and WHOLE.fullmatch(value) else value


class Kind:
    """The users' policies, or the operator's: where they are, and how one is set and cleared."""

    def __init__(self, operator: bool) -> None:
        self._operator = operator

    def of(self, vhost: VirtualHost) -> Policies:
        return vhost.operator_policies if self._operator else vhost.policies

    def find(self, request: Request) -> Named:
        vhost = request.vhost
        policy = self.of(vhost).by_name.get(request.path["name"])
        if policy is None:
            raise not_found()
        return vhost, policy

    def get_all(self, request: Request) -> Answer:
        """All policies that the user may see."""
        found = [(vhost, policy) for vhost in request.vhosts() for policy in self.of(vhost).by_name.values()]
        return answer_list(
            request.query, found, policy_view, lambda named: (f"{named[1].priority + (1 << 63):020}", named[1].name)
        )

    def get(self, request: Request) -> Result:
        """One policy."""
        return select_columns(request.query, policy_view(self.find(request)))

    async def put(self, request: Request) -> Result:
        """Set a policy; it takes effect at once."""
        vhost = vhost_to_change(request)
        pattern, definition = request.need("pattern", "definition")
        name = request.name("name")
        facts = {"priority": number(request.body.get("priority") or 0), "apply_to": request.body.get("apply-to") or "all"}
        existed = name in self.of(vhost).by_name
        put: Callable[..., None] = vhost.set_operator_policy if self._operator else vhost.set_policy
        try:
            await request.change(put, name, pattern, definition, **facts)
        except PreconditionFailed as error:
            raise invalid(error) from None
        return created(existed)

    async def delete(self, request: Request) -> Result:
        """Clear a policy."""
        vhost, policy = self.find(request)
        await request.change(vhost.clear_operator_policy if self._operator else vhost.clear_policy, policy.name)
        return done()

    def routes(self, base: str, level: str) -> list[Route]:
        one: list[tuple[str, Handler]] = [("GET", self.get), ("PUT", self.put), ("DELETE", self.delete)]
        return [
            Route("GET", base, VHOST, self.get_all),
            Route("GET", f"{base}/{{vhost}}", VHOST, self.get_all),
            *(Route(method, f"{base}/{{vhost}}/{{name}}", level, handler) for method, handler in one),
        ]


def vhost_to_change(request: Request) -> VirtualHost:
    """The path's vhost for something to set in it. RabbitMQ: that it is missing is told in other words there."""
    vhost = request.broker.vhosts.get(request.path["vhost"])
    if vhost is None:
        raise Refused(404, "vhost_not_found")
    return vhost


ROUTES = [
    *Kind(operator=False).routes("/api/policies", POLICYMAKER),
    *Kind(operator=True).routes("/api/operator-policies", ADMINISTRATOR),
]
