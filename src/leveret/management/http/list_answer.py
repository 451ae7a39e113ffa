"""Lists as the API gives them: filtered, sorted, and a page of them or all, as the query asks (`list_query.py`).

A long list is collected, sorted, encoded and sent some at a time, and others have their turn in between. What is listed may
change meanwhile: each object is shown as it is when its turn comes.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import TypeAlias, TypeVar

from leveret.management.http.answer import Answer, Body, LargeAnswer
from leveret.management.http.json import JsonObject, as_json
from leveret.management.http.list_query import columns_of, name_filter, page_of, sort_key, value_at, with_columns
from leveret.management.http.pause import Pause

T = TypeVar("T")

# By what a list is sorted: the names of its subjects, or a value of their views.
Key: TypeAlias = tuple[str, ...] | tuple[int, float | str]


def answer_list(
    query: Mapping[str, str],
    subjects: Iterable[T],
    view: Callable[[T], JsonObject],
    key_of: Callable[[T], tuple[str, ...]],
) -> Answer:
    """A list of views, each made only if it is shown: 10,000 queues and a page of 100 cost 100 views.

    `key_of` gives the order in which they stand if no other is asked for; its last part is the name that is looked for.
    """
    page = page_of(query)
    found = sorted(subjects, key=key_of)
    total = len(found)
    if query.get("name"):
        matches = name_filter(query["name"], query.get("use_regex") == "true")
        found = [subject for subject in found if matches(key_of(subject)[-1])]
    filtered = len(found)
    sort = query.get("sort", "")
    reverse = query.get("sort_reverse") == "true"
    columns = columns_of(query)
    if sort and sort != "name":
        views = [view(subject) for subject in found]
        views.sort(key=lambda one: sort_key(value_at(one, sort)), reverse=reverse)
        shown = views if page is None else page.cut(views)
    else:
        if sort:
            found.sort(key=lambda subject: key_of(subject)[-1])
        if reverse:
            found.reverse()
        shown = [view(subject) for subject in (found if page is None else page.cut(found))]
    items = shown if columns is None else [with_columns(one, columns) for one in shown]
    return Answer(items if page is None else page.answer(total, filtered, items))


async def answer_long_list(
    query: Mapping[str, str],
    subjects: Iterable[T],
    view: Callable[[T], JsonObject],
    key_of: Callable[[T], tuple[str, ...]],
) -> Answer:
    """As `answer_list`, with rests. Subjects are taken one by one: what they come from must not change meanwhile."""
    pause = Pause()
    page = page_of(query)
    matches = name_filter(query["name"], query.get("use_regex") == "true") if query.get("name") else None
    total = 0
    found: list[tuple[Key, T]] = []
    async for group in pause.groups(subjects):
        total += len(group)
        keyed = [(key_of(subject), subject) for subject in group]
        found += keyed if matches is None else [one for one in keyed if matches(one[0][-1])]
    filtered = len(found)
    found = await pause.in_order(found, itemgetter(0))
    found = await _sorted_as_asked(pause, query, found, view)
    columns = columns_of(query)

    def shown(subject: T) -> JsonObject:
        return view(subject) if columns is None else with_columns(view(subject), columns)

    if page is None:
        return await _in_json(pause, found, shown)
    items: list[JsonObject] = []
    async for some in pause.groups(page.cut(found)):
        items += [shown(subject) for _, subject in some]
    async for _ in pause.taken(found):
        pass
    return Answer(page.answer(total, filtered, items))


async def _sorted_as_asked(
    pause: Pause, query: Mapping[str, str], found: list[tuple[Key, T]], view: Callable[[T], JsonObject]
) -> list[tuple[Key, T]]:
    """In another order, if one is asked for."""
    sort = query.get("sort", "")
    reverse = query.get("sort_reverse") == "true"
    if sort and sort != "name":
        valued: list[tuple[Key, T]] = []
        async for group in pause.taken(found):
            valued += [(sort_key(value_at(view(subject), sort)), subject) for _, subject in group]
        return await pause.in_order(valued, itemgetter(0), reverse)
    if sort:
        found = await pause.in_order(found, lambda one: one[0][-1])
    if reverse:
        found.reverse()
    return found


async def _in_json(pause: Pause, found: list[tuple[Key, T]], shown: Callable[[T], JsonObject]) -> Answer:
    body = Body()
    before = b"["
    async for group in pause.taken(found):
        body.add(before + b",".join([as_json(shown(subject)) for _, subject in group]))
        before = b","
    body.add(b"]" if before == b"," else b"[]")
    return LargeAnswer(body.pieces)
