"""The log of definitions on a real nats-server: what is appended is read, and what is no such log is not taken for one."""

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.cluster.nodes import until

from leveret.cluster.commands import EntryId, entries_of
from leveret.cluster.definition_log import STREAM, DefinitionLog, Pending
from leveret.cluster.engine import Engine
from leveret.cluster.nats import Client, Stored

ENTRY = b'{"command": "Forgotten", "node": "n9"}'


class Reader:
    """A log, and what was read of it."""

    def __init__(self, engine: Engine) -> None:
        self.messages: list[Stored] = []
        self.ends: list[int] = []
        self._lock = threading.Lock()
        self.log = DefinitionLog(self.call_soon, self.messages.extend, self.ends.append)
        self.log.open(engine.address)

    def call_soon(self, function: Callable[..., None], argument: object) -> None:
        with self._lock:
            function(argument)

    def append(self, number: int) -> Pending:
        pending = Pending(EntryId("n1", 1, number), ENTRY)
        self.log.append(pending)
        return pending

    @property
    def numbers(self) -> list[int]:
        return [entry_id.number for message in self.messages for entry_id, _ in entries_of(message.payload)]


@pytest.fixture
def stream(client: Client) -> Iterator[Client]:
    yield client
    client.ask(f"$JS.API.STREAM.DELETE.{STREAM}")


@pytest.fixture
def reader(engine: Engine) -> Iterator[Reader]:
    found = Reader(engine)
    yield found
    found.log.close()


def test_what_is_appended_is_read_in_order(engine: Engine, stream: Client, reader: Reader) -> None:
    assert not reader.log.exists()
    reader.log.create(1)
    reader.log.create(1)
    assert reader.log.exists()
    # Also what was given before it began.
    for number in range(1, 601):
        reader.append(number)
    reader.log.start(0)
    until(lambda: len(reader.ends) == 3)
    reader.log.want(reader.ends[-1])
    until(lambda: len(reader.numbers) == 600)
    assert reader.numbers == list(range(1, 601))
    assert [message.seq for message in reader.messages] == [1, 2, 3]
    late = Reader(engine)
    late.log.start(1)
    until(lambda: len(late.messages) == 2)
    assert late.messages[0].seq == 2
    late.log.close()


def test_what_was_given_up_before_is_not_appended(stream: Client, reader: Reader) -> None:
    reader.log.create(1)
    for number in range(1, 6):
        reader.append(number).given_up = number in (1, 3)
    reader.log.start(0)
    until(lambda: len(reader.numbers) == 3)
    assert reader.numbers == [2, 4, 5]


@pytest.mark.parametrize("exists", [False, True])
def test_log_that_is_missing_or_short_is_not_read_nor_made(stream: Client, reader: Reader, exists: bool) -> None:
    if exists:
        reader.log.create(1)
    reader.log.start(5)
    until(lambda: bool(reader.log.fault))
    expected = "ends at 0, and this node has applied 5" if exists else "is missing"
    assert reader.log.fault == f"the log of definitions {expected}"
    assert reader.log.exists() is exists
    assert reader.messages == []


def test_who_is_too_far_behind_is_told(engine: Engine, stream: Client, reader: Reader) -> None:
    reader.log.create(1)
    reader.append(1)
    reader.log.start(0)
    until(lambda: len(reader.messages) == 1)
    stream.ask(f"$JS.API.STREAM.PURGE.{STREAM}")
    reader.append(2)
    until(lambda: len(reader.messages) == 2)
    late = Reader(engine)
    late.log.start(0)
    until(lambda: late.log.behind)
    assert late.messages == []
    late.log.skip_to(1)
    until(lambda: len(late.messages) == 1)
    assert late.numbers == [2]
    assert not late.log.behind
    late.log.close()
