"""Long lists, made in pieces between which others have their turn: an exporter that asks for all must stop nobody."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from leveret.management.answers import Answer
from leveret.management.lists import listed

# About five milliseconds' worth.
PIECE = 250

T = TypeVar("T")


async def listed_in_pieces(
    query: Mapping[str, str],
    subjects: Iterable[T],
    view: Callable[[T], dict[str, Any]],
    key_of: Callable[[T], tuple[str, ...]],
) -> Answer:
    """As `lists.listed`; a page that needs no other views than its own is made at once."""
    if "page" in query and query.get("sort", "") in ("", "name"):
        return listed(query, subjects, view, key_of)
    viewed: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    for subject in subjects:
        viewed.append((key_of(subject), view(subject)))
        if not len(viewed) % PIECE:
            await asyncio.sleep(0)
    return listed(query, viewed, lambda one: one[1], lambda one: one[0])
