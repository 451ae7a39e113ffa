"""The headers exchange: a message's headers matched against the arguments of each binding.

`x-match` says how: all (the default) or any of the arguments must be among the headers. Arguments whose names start with
`x-` do not count, except in the forms all-with-x and any-with-x, where only `x-match` itself does not. An argument
without a value (void) asks only that the header be there.
"""

from leveret.broker.binding import Binding
from leveret.broker.exchange import Exchange
from leveret.errors import PreconditionFailed
from leveret.terms import term
from leveret.wire.properties import Properties
from leveret.wire.values import Table, kind_of, same_value

FORMS = ("all", "any", "all-with-x", "any-with-x")


class Criteria:
    """What one binding asks of the headers."""

    __slots__ = ("any", "wanted")

    def __init__(self, arguments: Table) -> None:
        form = str(arguments.get("x-match", "all"))
        with_x = form.endswith("with-x")
        self.any = form.startswith("any")
        self.wanted = [
            (name, value) for name, value in arguments.items() if name != "x-match" and (with_x or not name.startswith("x-"))
        ]

    def fit(self, headers: Table) -> bool:
        for name, value in self.wanted:
            fits = name in headers and (value is None or same_value(headers[name], value))
            if fits == self.any:
                return fits
        return not self.any


class HeadersExchange(Exchange):
    """To the destinations whose arguments fit the message's headers."""

    __slots__ = ("_criteria",)

    def __init__(self, name: str, title: str, kind: str, arguments: Table) -> None:
        Exchange.__init__(self, name, title, kind, arguments)
        self.varies = True
        self._criteria: dict[object, tuple[Criteria, object]] = {}

    def match(self, routing_key: str, properties: Properties | None) -> list[object]:
        given = (properties and properties.headers) or {}
        return [destination for criteria, destination in self._criteria.values() if criteria.fit(given)]

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        form = arguments.get("x-match", "all")
        if not isinstance(form, str):
            raise PreconditionFailed(f"Invalid x-match field type {kind_of(form)} (value {term(form)}); expected longstr")
        if form not in FORMS:
            raise PreconditionFailed(
                f"Invalid x-match field value {term(form)}; expected all, any, all-with-x, or any-with-x"
            )

    def _add(self, binding: Binding) -> None:
        self._criteria[binding.key] = (Criteria(binding.arguments), binding.destination)

    def _remove(self, binding: Binding) -> None:
        del self._criteria[binding.key]
