"""Files of subscriptions: JSON or YAML, an exchange with its `Subscriptions`, or a list of exchanges."""

import codecs
import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from leveret.work.subscription import EXCHANGE_FIELDS, SUBSCRIPTION_FIELDS, Exchange, Subscription
from leveret.work.validation import BadSubscriptions, Problem, label_of, problems_of

SUFFIXES = (".json", ".yaml", ".yml")
FILE_MAX = 16 << 20


def read_files(paths: Iterable[Path], strict: bool = False) -> list[Exchange]:
    """The exchanges in these files and folders; raises BadSubscriptions if anything in them is wrong."""
    problems: list[Problem] = []
    exchanges: list[Exchange] = []
    origins: list[str] = []
    for path in files_in(paths, problems):
        for found in _exchanges(path, problems):
            exchanges.append(found)
            origins.append(str(path))
    problems += problems_of(exchanges, strict, origins)
    if not problems and not any(exchange.subscriptions for exchange in exchanges):
        where = ", ".join(map(str, paths))
        problems.append(Problem(where, "", "Subscriptions", "there are none"))
    if problems:
        raise BadSubscriptions(problems)
    return exchanges


def files_in(paths: Iterable[Path], problems: list[Problem]) -> Iterator[Path]:
    """These files, and those in these folders, sorted by name."""
    for path in paths:
        if not path.exists():
            problems.append(Problem(str(path), "", "", "no such file"))
        elif path.is_dir():
            yield from sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
        else:
            yield path


def _exchanges(path: Path, problems: list[Problem]) -> Iterator[Exchange]:
    try:
        documents = _documents(path)
    except (OSError, ValueError, RecursionError) as error:
        problems.append(Problem(str(path), "", "", f"cannot be read: {error}"))
        return
    for document in documents:
        if isinstance(document, dict):
            yield _exchange(path, document, problems)
        else:
            problems.append(Problem(str(path), "", "", "must be an exchange with its Subscriptions, or a list of exchanges"))


def _documents(path: Path) -> list[object]:
    if path.stat().st_size > FILE_MAX:
        raise ValueError(f"more than {FILE_MAX} bytes")
    octets = path.read_bytes()
    if path.suffix == ".json":
        found = [msgspec.json.decode(octets.removeprefix(codecs.BOM_UTF8))]
    else:
        import yaml  # noqa: PLC0415  (only if there are YAML files)

        try:
            found = [document for document in yaml.safe_load_all(octets) if document is not None]
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
    return [one for document in found for one in (document if isinstance(document, list) else [document])]


def _exchange(path: Path, document: Mapping[str, object], problems: list[Problem]) -> Exchange:
    values = _values(document, EXCHANGE_FIELDS, str(path), "", problems)
    values.setdefault("name", None)
    subscriptions = values.get("subscriptions", [])
    if isinstance(subscriptions, list):
        if not all(isinstance(one, dict) for one in subscriptions):
            problems.append(Problem(str(path), "", "Subscriptions", "must be a list of objects"))
        values["subscriptions"] = [
            _subscription(path, number, one, problems)
            for number, one in enumerate(subscriptions, 1)
            if isinstance(one, dict)
        ]
    return Exchange(**values)


def _subscription(path: Path, number: int, document: Mapping[str, object], problems: list[Problem]) -> Subscription:
    title = document.get("Name") or document.get("ConsumerId") or document.get("Id")
    values = _values(document, SUBSCRIPTION_FIELDS, str(path), label_of(title, number), problems)
    values.setdefault("handler", None)
    return Subscription(**values)


def _values(
    document: Mapping[str, object], names: dict[str, str], file: str, subscription: str, problems: list[Problem]
) -> dict[str, Any]:
    """A document's values by the names of our attributes; null means that the field is not given."""
    for name in document:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, 1)
            rule = "unknown field" + (f"; did you mean {near[0]}?" if near else "")
            problems.append(Problem(file, subscription, str(name), rule))
    return {names[name]: value for name, value in document.items() if name in names and value is not None}
