"""Policies, and those of the operator."""

import re
from typing import Any

from leveret.broker.policy import Policy
from leveret.broker.vhost import VirtualHost
from leveret.broker.vhost_policy import VhostPolicies
from leveret.errors import PreconditionFailed
from leveret.management.answers import Answer, Refused, bad_request, created, done, not_found
from leveret.management.asking import Ask
from leveret.management.lists import chosen, listed
from leveret.management.routes import ADMINISTRATOR, POLICYMAKER, VHOST, Handler, Result, Route

WHOLE = re.compile(r"-?[0-9]{1,18}")

Named = tuple[VirtualHost, Policy]


def policy_view(named: Named) -> dict[str, Any]:
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


def number(value: Any) -> Any:
    """A number that a client wrote as text; anything else as it is, for the model to refuse."""
    return int(value) if isinstance(value, str) and WHOLE.fullmatch(value) else value


class Kind:
    """The users' policies, or the operator's: where they are, and how one is set and cleared."""

    def __init__(self, operator: bool) -> None:
        self._operator = operator

    def of(self, vhost: VirtualHost) -> VhostPolicies:
        return vhost.operator_policies if self._operator else vhost.policies

    def find(self, ask: Ask) -> Named:
        vhost = ask.vhost
        policy = self.of(vhost).by_name.get(ask.path["name"])
        if policy is None:
            raise not_found()
        return vhost, policy

    def get_all(self, ask: Ask) -> Answer:
        """All policies that the user may see."""
        found = [(vhost, policy) for vhost in ask.vhosts() for policy in self.of(vhost).by_name.values()]
        return listed(ask.query, found, policy_view, lambda named: (f"{named[1].priority + (1 << 63):020}", named[1].name))

    def get(self, ask: Ask) -> Result:
        """One policy."""
        return chosen(ask.query, policy_view(self.find(ask)))

    async def put(self, ask: Ask) -> Result:
        """Set a policy; what it matches follows it at once."""
        vhost = vhost_to_change(ask)
        pattern, definition = ask.need("pattern", "definition")
        name = ask.name("name")
        facts = {"priority": number(ask.body.get("priority") or 0), "apply_to": ask.body.get("apply-to") or "all"}
        existed = name in self.of(vhost).by_name
        try:
            await ask.change(self.of(vhost).set, name, pattern, definition, **facts, by=ask.user.name)
        except PreconditionFailed as error:
            raise invalid(error) from None
        return created(existed)

    async def delete(self, ask: Ask) -> Result:
        """Clear a policy."""
        vhost, policy = self.find(ask)
        await ask.change(self.of(vhost).clear, policy.name, by=ask.user.name)
        return done()

    def routes(self, base: str, level: str) -> list[Route]:
        one: list[tuple[str, Handler]] = [("GET", self.get), ("PUT", self.put), ("DELETE", self.delete)]
        return [
            Route("GET", base, VHOST, self.get_all),
            Route("GET", f"{base}/{{vhost}}", VHOST, self.get_all),
            *(Route(method, f"{base}/{{vhost}}/{{name}}", level, handler) for method, handler in one),
        ]


def vhost_to_change(ask: Ask) -> VirtualHost:
    """The path's vhost for something to set in it. RabbitMQ: that it is missing is told in other words there."""
    vhost = ask.broker.vhosts.get(ask.path["vhost"])
    if vhost is None:
        raise Refused(404, "vhost_not_found")
    return vhost


ROUTES = [
    *Kind(operator=False).routes("/api/policies", POLICYMAKER),
    *Kind(operator=True).routes("/api/operator-policies", ADMINISTRATOR),
]
