"""Lists as the API gives them: sorted, with some columns only, filtered by name, a page at a time.

(1) Paging is asked for by `page`; then the answer is an object with the page in `items`.
(2) `columns` and `sort` may go into nested objects: `message_stats.publish`.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from leveret.broker.patterns import BadPattern, Pattern
from leveret.management.http.answer import Refused, bad_request
from leveret.management.http.json import Json, JsonObject

PAGE_SIZE = 100
PAGE_SIZE_MAX = 500

T = TypeVar("T")


class Page:
    """One page of a list, counted from 1."""

    __slots__ = ("number", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size

    def cut(self, found: list[T]) -> list[T]:
        start = (self.number - 1) * self.size
        if start and start >= len(found):
            pages = -(-len(found) // self.size)
            raise Refused(
                400, f"Page out of range, page: {self.number} page size: {self.size}, len: {pages}", "page_out_of_range"
            )
        return found[start : start + self.size]

    def answer(self, total: int, filtered: int, items: list[JsonObject]) -> JsonObject:
        return {
            "total_count": total,
            "item_count": len(items),
            "filtered_count": filtered,
            "page": self.number,
            "page_size": self.size,
            "page_count": max(1, -(-filtered // self.size)),
            "items": items,
        }


def page_of(query: Mapping[str, str]) -> Page | None:
    """The page that is asked for, if one is."""
    if "page" not in query:
        return None
    number = _positive(query["page"], "page")
    size = _positive(query.get("page_size") or str(PAGE_SIZE), "page_size")
    if size > PAGE_SIZE_MAX:
        raise bad_request(f"Invalid page size, too big {size}, max: {PAGE_SIZE_MAX}")
    return Page(number, size)


def _positive(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise Refused(
            400, f"{name} must be a positive number, not {text!r}", "page_size_error" if "size" in name else "page_error"
        )
    return int(text)


def name_filter(text: str, is_pattern: bool) -> Callable[[str], bool]:
    """Whether a name has this in it; upper and lower case are the same."""
    if not is_pattern:
        wanted = text.lower()
        return lambda name: wanted in name.lower()
    try:
        return Pattern(f"(?i){text}").matches
    except BadPattern as error:
        raise bad_request(f"bad regular expression: {error}") from None


def columns_of(query: Mapping[str, str]) -> list[list[str]] | None:
    """The columns that are asked for, each with its way into nested objects; None for all."""
    names = [name for name in query.get("columns", "").split(",") if name]
    return [name.split(".") for name in names] or None


def with_columns(one: JsonObject, columns: list[list[str]]) -> JsonObject:
    """What these columns name; of nested ones only that part."""
    found: JsonObject = {}
    for path in columns:
        value: Json = one
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            continue
        place = found
        for part in path[:-1]:
            inner = place.setdefault(part, {})
            # It has the value, so what it is in is an object.
            assert isinstance(inner, dict)
            place = inner
        place[path[-1]] = value
    return found


def select_columns(query: Mapping[str, str], one: JsonObject) -> JsonObject:
    """A single object, with some columns only if that is asked for."""
    columns = columns_of(query)
    return one if columns is None else with_columns(one, columns)


def value_at(one: Json, path: str) -> Json:
    for part in path.split("."):
        one = one.get(part) if isinstance(one, dict) else None
    return one


def sort_key(value: Json) -> tuple[int, float | str]:
    """An order for values of any kind: nothing, numbers, text, the rest."""
    if value is None:
        return (0, 0)
    if isinstance(value, bool | int | float):
        return (1, value)
    return (2, value) if isinstance(value, str) else (3, str(value))
