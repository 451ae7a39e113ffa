"""The runtime parameters of a vhost. RabbitMQ: its limits and its operator's policies can be read and set as such, too.

What is kept here are shovels; what they mean is in `broker/shovel.py`.
"""

from typing import TYPE_CHECKING, Any

from leveret.broker.access import User
from leveret.broker.command import NOBODY, ClearParameter, SetParameter
from leveret.broker.shovel import COMPONENT as SHOVEL_COMPONENT
from leveret.broker.shovel import SHOVELS_MAX, check_shovel
from leveret.errors import NotFound, PreconditionFailed
from leveret.terms import term

if TYPE_CHECKING:
    from leveret.broker.vhost import VirtualHost

LIMITS_COMPONENT = "vhost-limits"
OPERATOR_COMPONENT = "operator_policy"

Key = tuple[str, str]


class Parameters:
    """The parameters of one vhost; `values` are those that are nothing else, by component and name."""

    __slots__ = ("_vhost", "values")

    def __init__(self, vhost: "VirtualHost") -> None:
        self._vhost = vhost
        self.values: dict[Key, Any] = {}

    def set(self, component: str, name: str, value: Any, user: User | None = None, by: str = NOBODY) -> None:
        """Set a parameter, for this user, or as `by` has done it."""
        if user is not None:
            by = user.name
        if component == LIMITS_COMPONENT:
            # RabbitMQ: no limits are written as a list.
            self._vhost.set_limits({} if value == [] else value, by=by)
        elif component == OPERATOR_COMPONENT:
            self._vhost.operator_policies.set(name, **policy_of(value), by=by)
        elif component == "policy":
            raise PreconditionFailed("policies may not be set using this method")
        elif component == SHOVEL_COMPONENT:
            self._set_shovel(name, value, user, by)
        else:
            raise PreconditionFailed(f"component {component} not found")

    def _set_shovel(self, name: str, value: Any, user: User | None, by: str) -> None:
        broker = self._vhost.broker
        check_shovel(name, value, None if user is None else lambda vhost_name: broker.entry_refusal(user, vhost_name))
        key = (SHOVEL_COMPONENT, name)
        if key not in self.values and broker.shovel_count() >= SHOVELS_MAX:
            raise PreconditionFailed(f"component {SHOVEL_COMPONENT} is limited to {SHOVELS_MAX} per node")
        if self.values.get(key) == value:
            return
        broker.record(SetParameter(self._vhost.name, SHOVEL_COMPONENT, name, value, by=by, at=broker.now))
        self.values[key] = value
        broker.storage.put(
            "parameter", self._vhost.name, f"{SHOVEL_COMPONENT}\0{name}", broker.settings.seal.close({"value": value})
        )
        broker.shovel_changed(self._vhost.name, name)

    def clear(self, component: str, name: str, by: str = NOBODY) -> None:
        if (component, name) not in self.all():
            raise NotFound(f"parameter '{name}' of component '{component}' not found")
        if component == LIMITS_COMPONENT:
            self._vhost.set_limits({}, by=by)
        elif component == OPERATOR_COMPONENT:
            self._vhost.operator_policies.clear(name, by=by)
        else:
            broker = self._vhost.broker
            broker.record(ClearParameter(self._vhost.name, component, name, by=by, at=broker.now))
            del self.values[component, name]
            broker.storage.remove("parameter", self._vhost.name, f"{component}\0{name}")
            broker.shovel_changed(self._vhost.name, name)

    def all(self) -> dict[Key, Any]:
        """Every parameter, limits and the operator's policies among them."""
        found = dict(self.values)
        if self._vhost.limits:
            found[LIMITS_COMPONENT, "limits"] = self._vhost.limits
        for policy in self._vhost.operator_policies.by_name.values():
            found[OPERATOR_COMPONENT, policy.name] = {
                "pattern": policy.pattern.text,
                "definition": policy.definition,
                "priority": policy.priority,
                "apply-to": policy.apply_to,
            }
        return found

    def close(self) -> None:
        """The vhost is deleted: end its shovels."""
        for _, name in self.values:
            self._vhost.broker.shovel_changed(self._vhost.name, name)


def policy_of(value: Any) -> dict[str, Any]:
    """What a policy that is written as a parameter says."""
    if not isinstance(value, dict):
        raise PreconditionFailed(f"policy should be an object, actually was {term(value)}")
    for key in ("pattern", "definition"):
        if key not in value:
            raise PreconditionFailed(f'Key "{key}" not found in policy')
    return {
        "pattern": value["pattern"],
        "definition": value["definition"],
        "priority": value.get("priority", 0),
        "apply_to": value.get("apply-to", "all"),
    }
