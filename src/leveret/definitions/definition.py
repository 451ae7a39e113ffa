"""A thing to make, as an operator writes it in the settings, with the names of RabbitMQ's definitions file."""

import msgspec

from leveret.broker.broker import Broker


class Definition(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename={"apply_to": "apply-to"}):
    """A thing to make. What it does not say is as by default, also of one that is there already."""

    @property
    def title(self) -> str:
        """Its name, to say where something is wrong."""
        raise NotImplementedError

    def make(self, broker: Broker) -> None:
        """Make it, or raise what the model refuses it with."""
        raise NotImplementedError
