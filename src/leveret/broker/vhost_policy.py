"""The policies of a vhost, those of its users and those of its operator, and the queues and exchanges that follow them.

What an operator's policy says a user's policy and arguments cannot exceed. A change is followed in pieces (`Reapply`).
"""

from typing import TYPE_CHECKING, Any

from leveret.broker.arguments import queue_settings_of, queue_type
from leveret.broker.budget import Budget
from leveret.broker.command import NOBODY, ClearPolicy, SetPolicy
from leveret.broker.node_limit import check_policy_pattern
from leveret.broker.policy import Policies, Policy
from leveret.broker.queue import Queue
from leveret.broker.work import Task
from leveret.errors import NotFound

if TYPE_CHECKING:
    from leveret.broker.exchange import Exchange
    from leveret.broker.vhost import VirtualHost

# So many policies cost as much to compare with a name as one operation of a queue.
POLICIES_A_UNIT = 2
# What following one costs in the budget of a pass, and how many do at once.
REAPPLY_COST = 10
REAPPLY_PIECE = 200


class VhostPolicies(Policies):
    """The policies of a vhost's users, or those of its operator."""

    __slots__ = ("_kind", "_operator", "_vhost")

    def __init__(self, vhost: "VirtualHost", operator: bool = False) -> None:
        super().__init__(operator)
        self._vhost = vhost
        self._operator = operator
        self._kind = "operator_policy" if operator else "policy"

    def set(
        self,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        *,
        priority: int = 0,
        apply_to: str = "all",
        by: str = NOBODY,
    ) -> None:
        """Set a policy; what it matches follows it from now on."""
        check_policy_pattern(self._vhost.broker.settings.limits, pattern)
        policy = Policy(name, pattern, definition, priority, apply_to)
        self.check(policy)
        known = self.by_name.get(name)
        if known is not None and known.says_the_same(policy):
            return
        broker, vhost_name = self._vhost.broker, self._vhost.name
        broker.record(
            SetPolicy(vhost_name, name, pattern, definition, priority, apply_to, self._operator, by=by, at=broker.now)
        )
        self.put(policy)
        facts = {"pattern": pattern, "definition": definition, "priority": priority, "apply_to": apply_to}
        broker.storage.put(self._kind, vhost_name, name, facts)
        broker.events.add(f"{self._kind}.set", vhost_name, name)
        self._have_followed()

    def clear(self, name: str, by: str = NOBODY) -> None:
        if name not in self.by_name:
            raise NotFound(f"policy '{name}' not found")
        broker, vhost_name = self._vhost.broker, self._vhost.name
        broker.record(ClearPolicy(vhost_name, name, self._operator, by=by, at=broker.now))
        self.remove(name)
        broker.storage.remove(self._kind, vhost_name, name)
        broker.events.add(f"{self._kind}.cleared", vhost_name, name)
        self._have_followed()

    def _have_followed(self) -> None:
        # A piece at once, so that whoever set it sees it done where there is little to do.
        task = Reapply(self._vhost)
        if not task.run(self._vhost.work.budget):
            self._vhost.work.add(task)


def follow_policies(vhost: "VirtualHost", subject: "Queue | Exchange") -> None:
    """Have a queue or exchange follow the policies that are for it now."""
    vhost.work.budget.left -= (len(vhost.policies.by_name) + len(vhost.operator_policies.by_name)) // POLICIES_A_UNIT
    kind = queue_type(subject.arguments) if isinstance(subject, Queue) else "exchange"
    policy = vhost.policies.best(kind, subject.name)
    operator_policy = vhost.operator_policies.best(kind, subject.name)
    if policy is subject.policy and operator_policy is subject.operator_policy:
        return
    subject.policy = policy
    subject.operator_policy = operator_policy
    definition = {} if policy is None else policy.definition
    if isinstance(subject, Queue):
        limits = {} if operator_policy is None else operator_policy.definition
        subject.apply(queue_settings_of(subject.arguments, definition, limits), vhost.now)
    else:
        subject.follow(definition)
        vhost.broker.changed()


class Reapply(Task):
    """Has the queues and exchanges of a vhost follow its policies, some at a time."""

    __slots__ = ("_pending", "_vhost")

    def __init__(self, vhost: "VirtualHost") -> None:
        self._vhost = vhost
        self._pending: list[Queue | Exchange] = [*vhost.queues.values(), *vhost.exchanges.values()]

    def run(self, budget: Budget) -> bool:
        for _ in range(REAPPLY_PIECE):
            if not self._pending:
                return True
            budget.left -= REAPPLY_COST
            subject = self._pending.pop()
            if not subject.deleted:
                follow_policies(self._vhost, subject)
        return not self._pending
