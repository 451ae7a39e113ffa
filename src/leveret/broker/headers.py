"""The headers exchange: a message's headers matched against the arguments of each binding.

`x-match` says how: all (the default) or any of the arguments must be among the headers. Arguments whose names start with
`x-` do not count, except in the forms all-with-x and any-with-x, where only `x-match` itself does not. An argument
without a value (void) asks only that the header be there.

What bindings ask for is found by name and value, so that matching costs by the headers a message has and by what they
may lead to, not by how many bindings there are.

  (1) Bindings that ask for the same share one `Criteria`.
  (2) With any, it is found by each field that it asks for, and fits once it is found. With all, it is found by one of
      them, that which the fewest others were found by, and then compared.
  (3) All of nothing fits every message, any of nothing none.
"""

from typing import TypeAlias

from leveret.broker.binding import Binding
from leveret.broker.exchange import Destinations, Exchange
from leveret.errors import PreconditionFailed
from leveret.terms import term
from leveret.wire.properties import Properties
from leveret.wire.values import Table, Value, encode_value, kind_of

FORMS = ("all", "any", "all-with-x", "any-with-x")
# Comparing takes as long as so many other looks (see `Exchange.looks`).
COMPARE_LOOKS = 4

# A value as something that can be a dictionary's key: its class, and what is equal within that.
Comparable: TypeAlias = tuple[int, object]
BOOL, NUMBER, OCTETS, OTHER, EMPTY, THERE = range(6)
PRESENT: Comparable = (THERE, None)


def comparable(value: Value) -> Comparable:
    """RabbitMQ: equal numbers are the same whatever their types, and so are strings and binaries of the same octets."""
    if isinstance(value, bool):
        return (BOOL, value)
    if isinstance(value, int | float):
        return (NUMBER, value)
    if isinstance(value, str):
        return (OCTETS, value)
    if isinstance(value, bytes):
        return (OCTETS, value.decode("utf-8", "surrogateescape"))
    if isinstance(value, list | dict) and not value:
        # RabbitMQ: an array and a table of nothing are the same too.
        return (EMPTY, None)
    return (OTHER, encode_value(value))


class Criteria:
    """What some bindings ask of the headers, and where they lead; found by `fields`. `reached_in` serves the search."""

    __slots__ = ("any", "destinations", "fields", "reached_in", "wanted")

    def __init__(self, any_: bool, wanted: dict[str, Comparable]) -> None:
        self.any = any_
        self.wanted = wanted
        self.destinations = Destinations()
        self.fields: list[tuple[str, Comparable]] = []
        self.reached_in = 0

    def fit(self, given: dict[str, Comparable]) -> bool:
        """Whether all that is wanted is given."""
        for name, value in self.wanted.items():
            found = given.get(name)
            if found is None or (found != value and value is not PRESENT):
                return False
        return True


Asked: TypeAlias = tuple[bool, frozenset[tuple[str, Comparable]]]


def asked_by(arguments: Table) -> tuple[bool, dict[str, Comparable]]:
    """Whether any is enough, and what a binding with these arguments asks for."""
    form = str(arguments.get("x-match", "all"))
    with_x = form.endswith("with-x")
    wanted = {
        name: PRESENT if value is None else comparable(value)
        for name, value in arguments.items()
        if name != "x-match" and (with_x or not name.startswith("x-"))
    }
    return form.startswith("any"), wanted


class HeadersExchange(Exchange):
    """To the destinations whose arguments fit the message's headers."""

    __slots__ = ("_by_field", "_criteria", "_for_all", "_stamp")

    def __init__(self, name: str, title: str, kind: str, arguments: Table) -> None:
        Exchange.__init__(self, name, title, kind, arguments)
        self.varies = True
        self._criteria: dict[Asked, Criteria] = {}
        # By name, and then by value.
        self._by_field: dict[str, dict[Comparable, dict[Criteria, None]]] = {}
        self._for_all: Criteria | None = None
        self._stamp = 0

    def match(self, routing_key: str, properties: Properties | None) -> list[object]:
        headers = properties.headers if properties is not None else None
        found: list[object] = []
        if headers and self._by_field:
            self._search({name: comparable(value) for name, value in headers.items()}, found)
        if self._for_all is None:
            return found
        return found + self._for_all.destinations.as_list() if found else self._for_all.destinations.as_list()

    def match_all(self, routing_keys: list[str], properties: Properties | None) -> list[object]:
        # Whatever the keys are.
        return self.match("", properties)

    def _search(self, given: dict[str, Comparable], found: list[object]) -> None:
        """Add the destinations of what fits these headers."""
        self._stamp += 1
        self.looks += len(given)
        for name, value in given.items():
            values = self._by_field.get(name)
            if values is not None:
                for key in (value, PRESENT):
                    if key in values:
                        self._take(values[key], given, found)

    def _take(self, candidates: dict[Criteria, None], given: dict[str, Comparable], found: list[object]) -> None:
        stamp = self._stamp
        self.looks += COMPARE_LOOKS * len(candidates)
        for criteria in candidates:
            if criteria.reached_in != stamp and (criteria.any or criteria.fit(given)):
                criteria.reached_in = stamp
                found += criteria.destinations.as_list()

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        form = arguments.get("x-match", "all")
        if not isinstance(form, str):
            raise PreconditionFailed(f"Invalid x-match field type {kind_of(form)} (value {term(form)}); expected longstr")
        if form not in FORMS:
            raise PreconditionFailed(
                f"Invalid x-match field value {term(form)}; expected all, any, all-with-x, or any-with-x"
            )

    def _add(self, binding: Binding) -> None:
        any_, wanted = asked_by(binding.arguments)
        asked = (any_, frozenset(wanted.items()))
        criteria = self._criteria.get(asked)
        if criteria is None:
            criteria = self._criteria[asked] = Criteria(any_, wanted)
            self._enter(criteria)
        criteria.destinations.add(binding.destination)

    def _enter(self, criteria: Criteria) -> None:
        """Have new criteria found."""
        fields = list(criteria.wanted.items())
        if not criteria.any:
            if not fields:
                self._for_all = criteria
                return
            fields = [min(fields, key=self._crowd)]
        for name, value in fields:
            self._by_field.setdefault(name, {}).setdefault(value, {})[criteria] = None
        criteria.fields = fields

    def _crowd(self, field: tuple[str, Comparable]) -> tuple[bool, int]:
        """How bad it is to be found by this: a value is better than presence, which any value has, and few than many."""
        name, value = field
        return value is PRESENT, len(self._by_field.get(name, {}).get(value, ()))

    def _remove(self, binding: Binding) -> None:
        any_, wanted = asked_by(binding.arguments)
        asked = (any_, frozenset(wanted.items()))
        criteria = self._criteria[asked]
        criteria.destinations.remove(binding.destination)
        if criteria.destinations:
            return
        del self._criteria[asked]
        if criteria is self._for_all:
            self._for_all = None
        for name, value in criteria.fields:
            values = self._by_field[name]
            del values[value][criteria]
            if not values[value]:
                del values[value]
                if not values:
                    del self._by_field[name]
