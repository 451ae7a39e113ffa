"""Each program in examples/ runs alone, prints just what its reader is promised, and leaves nothing behind."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from tests.bench.brokers import leveret

EXAMPLES = Path(__file__).parents[2] / "examples"
TIME_LIMIT = 30
PRINTED = {
    "work_queue.py": """\
4 tasks are waiting
Anna takes task 1
Boris takes task 2 and is slow
Anna is done and takes task 3
Anna is done and takes task 4
Boris is gone without a word
Anna takes task 2 because it was never acknowledged; redelivered: True
left in the queue: 0
""",
    "publish_subscribe.py": """\
published: Ice hockey: 3:2 after overtime
published: Chess: a draw after 94 moves
phone A received: Ice hockey: 3:2 after overtime | Chess: a draw after 94 moves
phone B received: Ice hockey: 3:2 after overtime | Chess: a draw after 94 moves
phone C received: Ice hockey: 3:2 after overtime | Chess: a draw after 94 moves
""",
    "routing.py": """\
published info: started
published error: disk full
published debug: x = 3
published warning: disk nearly full
pager got error: disk full
log file got info: started
log file got error: disk full
log file got warning: disk nearly full
""",
    "pdf_creation.py": """\
web application: Ana, your PDF is being made
web application: Ivan, your PDF is being made
PDF processor: made Ana.pdf
PDF processor: made Ivan.pdf
log: {"file": "Ana.pdf", "sent to": "ana@example.com"}
log: {"file": "Ivan.pdf", "sent to": "ivan@example.com"}
""",
    "image_processing.py": """\
web application: please detect the faces in 300000 bytes
worker: a picture of 300000 bytes, image/png
web application: 300029 bytes from face detection
it is the answer to my request: True
which was sent at 1700000000
""",
    "topics.py": """\
berlin_agreements (agreements.eu.berlin.#)
    agreements.eu.berlin
    agreements.eu.berlin.headstore
    agreements.eu.berlin.store
all_agreements (agreements.#)
    agreements.us
    agreements.eu.berlin
    agreements.eu.berlin.headstore
    agreements.eu.berlin.store
    agreements.eu.stockholm.store
store_agreements (agreements.eu.*.store)
    agreements.eu.berlin.store
    agreements.eu.stockholm.store
""",
    "headers.py": """\
published new portrait: source=profile, object=image, action=new
published deleted portrait: source=profile, object=image, action=delete
published deleted landscape: source=gallery, object=image, action=delete
published new film: source=gallery, object=video, action=new, seconds=12
face detection got new portrait
storage got new portrait
storage got deleted landscape
storage got new film
""",
    "exchange_to_exchange.py": """\
published to the parent: new, a cat
published to the parent: delete, a dog
published to the parent: new, a hare
audit got new, a cat
audit got delete, a dog
audit got new, a hare
new pictures got new, a cat
new pictures got new, a hare
""",
    "alternate_exchange.py": """\
published a letter to Prague
published a letter to Atlantis
Prague: a letter to Prague (exchange example.letters, key Prague)
unroutable: a letter to Atlantis (exchange example.letters, key Atlantis)
""",
    "rpc.py": """\
client: what is 12 squared?
client: what is 2 squared?
server: 2 squared is 4
server: 12 squared is 144
client: the answers are 144 4
""",
    "publisher_confirms.py": """\
message 1: confirmed, the broker has it
message 2: confirmed, the broker has it
message 3: refused, the queue is full
message 4: returned, 312 NO_ROUTE
message 5: confirmed, though it went nowhere: it was not mandatory
""",
    "transactions.py": """\
at first: 2 orders waiting, 0 bills waiting
before the commit: 1 orders waiting, 0 bills waiting
after the commit: 1 orders waiting, 1 bills waiting
after a rollback: 1 orders waiting, 1 bills waiting
the bill reads: bill for order 1
""",
    "dead_letters.py": """\
a letter nobody can read: rejected
an invitation for yesterday: expired
circular 1: maxlen
left in the inbox: 2
""",
    "priorities.py": """\
cold comes in without a priority
broken arm comes in with priority 5
heart attack comes in with priority 9
cough comes in without a priority
burn comes in with priority 5
next, please: heart attack
next, please: broken arm
next, please: burn
next, please: cold
next, please: cough
""",
    "ttl.py": """\
of two forecasts is left: a warm summer
prices left: 0
the unused queue is gone: 404 NOT_FOUND
wake up, which came after 300 ms or more: True
""",
    "consistent_hash.py": """\
published 3 messages for each of 1000 customers
together they have 1000 customers
each customer's messages are in one queue and in order: True
the large server has about two thirds of them: True
""",
}


@pytest.fixture(scope="module")
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Leveret, or with tests/interop in the same run the broker given with `--broker`."""
    given = request.config.getoption("--broker", default=None)
    if given:
        yield given
        return
    with leveret() as broker:
        yield f"amqp://guest:guest@127.0.0.1:{broker.port}/%2F"


@pytest.mark.parametrize("name", PRINTED)
def test_example_prints_what_happens_and_may_run_again(url: str, name: str) -> None:
    """SPEC §3.6: the seeds' scenarios, with real clients. SPEC §12: expiration in ms (ttl.py), priority 9 before 0."""
    for _ in range(2):
        assert run(name, url) == (0, PRINTED[name], "")
    assert leftovers(url, EXAMPLES / name) == []


def run(name: str, url: str) -> tuple[int, str, str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
    return done.returncode, done.stdout, done.stderr


def leftovers(url: str, example: Path) -> list[str]:
    """Return those of the example's names that a queue or an exchange still has."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        return [name for name in named(example) if exists(connection, name)]


def named(example: Path) -> list[str]:
    return re.findall(r'"(example\.[^"]+)"', example.read_text(encoding="utf-8"))


def exists(connection: pika.BlockingConnection, name: str) -> bool:
    for declare in ("queue_declare", "exchange_declare"):
        try:
            with connection.channel() as channel:
                getattr(channel, declare)(name, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            if error.reply_code != 404:
                raise
        else:
            return True
    return False


def test_no_example_is_untested() -> None:
    assert sorted(PRINTED) == sorted(path.name for path in EXAMPLES.glob("*.py"))


def test_every_example_is_in_the_table() -> None:
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+\.py)`", table, re.MULTILINE)) == sorted(PRINTED)


def test_every_name_begins_so_that_leftovers_are_found() -> None:
    for path in EXAMPLES.glob("*.py"):
        declared = re.findall(r'_declare\(\s*f?"([^"]+)"', path.read_text(encoding="utf-8"))
        assert all(name.startswith("example.") for name in declared), path


def test_leftovers_are_found(url: str, tmp_path: Path) -> None:
    example = tmp_path / "untidy.py"
    example.write_text('QUEUE, EXCHANGE, ROUTING_KEY = "example.left-queue", "example.left-exchange", "example.key"\n')
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare("example.left-queue", auto_delete=True)
        channel.exchange_declare("example.left-exchange")
        assert leftovers(url, example) == ["example.left-queue", "example.left-exchange"]
        channel.queue_delete("example.left-queue")
        channel.exchange_delete("example.left-exchange")
