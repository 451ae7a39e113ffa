"""Parameters of vhosts and of the whole broker. Limits of a vhost and its operator's policies are among the first."""

from typing import Any

from leveret.broker.broker import Broker
from leveret.definitions.definition import Definition
from leveret.definitions.item import Facts, Item


class ParameterDefinition(Definition, frozen=True):
    component: str
    name: str
    value: Any
    vhost: str = "/"

    @property
    def title(self) -> str:
        return self.name

    def make(self, broker: Broker) -> None:
        broker.find_vhost(self.vhost).parameters.set(self.component, self.name, self.value)


def facts(parameter: tuple[tuple[str, str], Any]) -> Facts:
    (component, name), value = parameter
    return {"component": component, "name": name, "value": value}


def read(broker: Broker, item: Item) -> None:
    item.vhost(broker).parameters.set(item.text("component"), item.name("name"), item.need("value"))


def restore(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    component, _, own_name = name.partition("\0")
    opened = broker.settings.seal.open(row, f"the parameter '{own_name}' of component '{component}' in vhost '{vhost}'")
    # As it is: what an older version took is not refused now.
    broker.find_vhost(vhost).parameters.values[component, own_name] = opened["value"]


def global_facts(parameter: tuple[str, Any]) -> Facts:
    name, value = parameter
    return {"name": name, "value": value}


def read_global(broker: Broker, item: Item) -> None:
    broker.set_parameter(item.name("name"), item.need("value"))


def restore_global(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    broker.parameters[name] = row["value"]
