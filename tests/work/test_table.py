"""Issue 6, 1: every AcknowledgePolicy with every RejectPolicy, what befalls the handling, and what is left then.

For each outcome one set of workers runs, with a subscription for each pair of policies; each gets one message, with a
receipt asked for whatever happens. On Leveret and on a real RabbitMQ.
"""

import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.server.support import eventually
from tests.work.support import ROOT, Door, Place, Working, WorkProcess, for_ever, fresh, handlers, write
from tests.work.table import ACKNOWLEDGE, OUTCOMES, PAIRS, REFUSED_PAIRS, REJECT, ROWS, TABLE, Fate, shown

from leveret.work import BadSubscriptions, Exchange, Runtime, Subscription

Pair = tuple[str, str]

REFUSES = threading.Event()


def refuses(message: Any) -> bool:
    return REFUSES.is_set()


class Run:
    """One message for each pair of policies, in queues of its own."""

    def __init__(self, place: Place, outcome: str) -> None:
        self.place = place
        self.outcome = outcome
        self.exchange = fresh(outcome)
        self.receipts = fresh("receipts")
        self.calls: dict[Pair, list[bool]] = {pair: [] for pair in PAIRS}

    def key(self, pair: Pair) -> str:
        return f"{pair[0]}-{pair[1].replace(':', '-')}"

    def fields(self, pair: Pair, function: str) -> dict[str, Any]:
        """As files name them."""
        policies = {"WhenOverloaded": {"WhenOverloaded": {"InFlight": 1 if self.outcome == "overload" else 100}}}
        return {
            "Name": self.key(pair),
            "RoutingKey": self.key(pair),
            "Queue": {"Name": self.queue(pair), "Arguments": self.arguments(pair)},
            "ConsumerId": f"c-{self.key(pair)}",
            "AcknowledgePolicy": pair[0],
            "RejectPolicy": function if pair[1] == "module:function" else policies.get(pair[1], pair[1]),
            "Receipt": "Always",
        }

    def queue(self, pair: Pair) -> str:
        return f"{self.exchange}.{self.key(pair)}"

    def arguments(self, pair: Pair) -> dict[str, Any]:
        return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{self.queue(pair)}.dead"}

    def prepare(self) -> None:
        self.place.declare(self.receipts)
        for pair in PAIRS:
            self.place.declare(f"{self.queue(pair)}.dead")

    def subscriptions(self, handle: Callable[[Pair, Any], None]) -> Exchange:
        found = []
        for pair in PAIRS:
            fields = self.fields(pair, "")
            found.append(
                Subscription(
                    handler=lambda message, pair=pair: handle(pair, message),
                    name=fields["Name"],
                    routing_key=fields["RoutingKey"],
                    queue=fields["Queue"],
                    consumer_id=fields["ConsumerId"],
                    acknowledge_policy=pair[0],
                    reject_policy=refuses if pair[1] == "module:function" else fields["RejectPolicy"],
                    receipt="Always",
                )
            )
        return Exchange(self.exchange, "Direct", subscriptions=found)

    def publish(self) -> None:
        for pair in PAIRS:
            facts = {"reply_to": self.receipts, "correlation_id": self.key(pair), "message_id": self.key(pair)}
            self.place.publish(self.exchange, self.key(pair), b"{}", persistent=True, **facts)

    def came(self, pair: Pair, message: Any) -> None:
        self.calls[pair].append(message.redelivered)

    def waits(self) -> dict[Pair, int]:
        return {pair: self.place.ready(self.queue(pair)) for pair in PAIRS}

    def fates(self, before: dict[Pair, int]) -> dict[Pair, Fate]:
        """When all is over. `before`: what waited in the queues while the connections lived."""
        told: dict[str, str] = {}
        for _, properties, _ in self.place.take(self.receipts):
            assert properties.type == "leveret.receipt"
            assert properties.headers["ConsumerId"] == f"c-{properties.correlation_id}"
            assert ("error" in properties.headers) == (properties.headers["outcome"] == "failed")
            # What was refused is told of again each time; what failed and comes again is handled well then.
            told.setdefault(properties.correlation_id, properties.headers["outcome"])
        return {pair: (self.left(pair, before[pair]), told.get(self.key(pair), "")) for pair in PAIRS}

    def left(self, pair: Pair, before: int) -> str:
        waiting, dead = self.place.take(self.queue(pair)), self.place.take(f"{self.queue(pair)}.dead")
        if dead:
            assert dead[0][1].headers["x-death"][0]["reason"] == "rejected"
            assert not waiting
            return "dead-lettered"
        if not waiting:
            assert self.calls[pair] in ([False], [False, True])
            return "requeued" if len(self.calls[pair]) == 2 else "acked"
        assert [method.redelivered for method, _, _ in waiting] == [True]
        if not self.calls[pair]:
            return "requeued"
        assert before == 0
        return "unacked" if self.outcome == "exception" else "redelivered"


def run_success(place: Place, folder: Path) -> dict[Pair, Fate]:
    run = Run(place, "success")
    run.prepare()
    with Working(place.url, run.subscriptions(run.came)):
        run.publish()
        eventually(lambda: all(run.calls.values()))
        before = run.waits()
    return run.fates(before)


def run_exception(place: Place, folder: Path) -> dict[Pair, Fate]:
    run = Run(place, "exception")
    run.prepare()

    def handle(pair: Pair, message: Any) -> None:
        run.came(pair, message)
        if not message.redelivered:
            raise ValueError("it does not work")

    with Working(place.url, run.subscriptions(handle)) as working:
        run.publish()
        again = [pair for pair in PAIRS if pair[1] == "OnFailure"]
        eventually(lambda: all(run.calls.values()) and all(len(run.calls[pair]) == 2 for pair in again))
        eventually(lambda: working.runtime.counters.receipts == len(PAIRS) + len(again))
        before = run.waits()
        assert working.runtime.counters.failed == len(PAIRS)
        assert working.runtime.counters.unacknowledged == 3
    return run.fates(before)


def run_cut(place: Place, folder: Path) -> dict[Pair, Fate]:
    run = Run(place, "cut")
    run.prepare()
    cut = threading.Event()

    def handle(pair: Pair, message: Any) -> None:
        run.came(pair, message)
        assert cut.wait(60)

    with Door(place.port) as door:
        url = f"amqp://127.0.0.1:{door.port}"
        with Working(url, run.subscriptions(handle), wait=for_ever) as working:
            run.publish()
            eventually(lambda: all(run.calls.values()))
            before = run.waits()
            door.shut()
            eventually(lambda: working.runtime.counters.disconnects == len(PAIRS))
            cut.set()
            eventually(lambda: working.runtime.counters.handled == len(PAIRS))
            eventually(lambda: working.runtime.in_flight == 0)
            assert working.runtime.counters.receipts == 0
    return run.fates(before)


def run_overload(place: Place, folder: Path) -> dict[Pair, Fate]:
    run = Run(place, "overload")
    run.prepare()
    busy, over = threading.Event(), threading.Event()

    def occupy(message: Any) -> None:
        busy.set()
        assert over.wait(60)

    blocker = Exchange(fresh("busy"), subscriptions=[Subscription(name="blocker", handler=occupy)])
    REFUSES.set()
    try:
        with Working(place.url, run.subscriptions(run.came), blocker) as working:
            place.publish(blocker.name, "", b"")
            assert busy.wait(60)
            run.publish()
            able = [pair for pair in PAIRS if pair[1] not in ("WhenOverloaded", "module:function")]
            eventually(lambda: all(run.calls[pair] for pair in able))
            eventually(lambda: working.runtime.counters.refused >= len(PAIRS) - len(able))
            before = run.waits()
            working.tell()
            # All but the one that is at work.
            eventually(lambda: sum("leveret-work" in thread.name for thread in threading.enumerate()) == 1)
            over.set()
    finally:
        REFUSES.clear()
    return run.fates(before)


CRASH = """
import os, time

def handle(message):
    open(os.path.join("called", message.consumer_id), "w").close()
    time.sleep(60)

def refuses(message):
    return False
"""


def run_crash(place: Place, folder: Path) -> dict[Pair, Fate]:
    """The worker's process is ended with SIGKILL while its handlers are at work."""
    run = Run(place, "crash")
    run.prepare()
    handlers(folder, CRASH)
    (folder / "called").mkdir()
    fields = [{**run.fields(pair, "handlers:refuses"), "Handler": "handlers:handle"} for pair in PAIRS]
    write(folder / "crash.json", {"Name": run.exchange, "Type": "Direct", "Subscriptions": fields})
    with WorkProcess(folder, "crash.json", "--url", place.url) as process:
        process.says(": listening", len(PAIRS))
        run.publish()
        eventually(lambda: len(list((folder / "called").iterdir())) == len(PAIRS))
        before = run.waits()
        process.popen.kill()
        process.popen.wait()
        # The broker sees the sockets' end a moment later.
        back = sum(fates["crash"][0] == "redelivered" for pair in PAIRS if (fates := TABLE[pair]))
        eventually(lambda: sum(run.waits().values()) == back)
    run.calls = {pair: [False] for pair in PAIRS}
    return run.fates(before)


RUNS = {"success": run_success, "exception": run_exception, "crash": run_crash, "cut": run_cut, "overload": run_overload}
Seen = Callable[[str, str], dict[Pair, Fate]]


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What was seen on a broker for an outcome; each is run once."""
    found: dict[tuple[str, str], dict[Pair, Fate]] = {}

    def look(broker: str, outcome: str) -> dict[Pair, Fate]:
        if (broker, outcome) not in found:
            place: Place = request.getfixturevalue(f"{broker}_place")
            found[broker, outcome] = RUNS[outcome](place, Path(tmp_path_factory.mktemp(outcome)))
        return found[broker, outcome]

    return look


@pytest.mark.parametrize("broker", ["leveret", "rabbitmq"])
@pytest.mark.parametrize(("acknowledge", "reject", "outcome"), ROWS)
def test_what_becomes_of_a_message(seen: Seen, broker: str, acknowledge: str, reject: str, outcome: str) -> None:
    """SPEC §10: AcknowledgePolicy, RejectPolicy and Receipt."""
    fates = TABLE[acknowledge, reject]
    assert fates is not None
    assert seen(broker, outcome)[acknowledge, reject] == fates[outcome]


@pytest.mark.parametrize(("acknowledge", "reject"), REFUSED_PAIRS)
def test_pairs_that_make_no_sense_are_refused(acknowledge: str, reject: str) -> None:
    one = Subscription(name="s", handler=print, acknowledge_policy=acknowledge, reject_policy=reject)
    with pytest.raises(BadSubscriptions, match=f"RejectPolicy: {reject} cannot be combined with {acknowledge}"):
        Runtime("amqp://127.0.0.1:1", [Exchange("x", subscriptions=[one])])


def test_table_is_complete() -> None:
    assert list(TABLE) == [(acknowledge, reject) for acknowledge in ACKNOWLEDGE for reject in REJECT]
    assert all(tuple(fates) == OUTCOMES for fates in TABLE.values() if fates is not None)


def test_documents_show_the_same_table() -> None:
    lines = (ROOT / "docs" / "subscriptions.md").read_text(encoding="utf-8").splitlines()
    documented = [line for line in lines if line.startswith(("| Always", "| OnlyOn"))]
    expected = []
    for (acknowledge, reject), fates in TABLE.items():
        name = f"`{reject}`" if ":" in reject else reject
        cells = ["refused by the check"] + [""] * 4 if fates is None else [shown(fates[outcome]) for outcome in OUTCOMES]
        expected.append(f"| {' | '.join([acknowledge, name, *cells])} |".replace("  ", " "))
    assert [" ".join(line.split()) for line in documented] == [" ".join(line.split()) for line in expected]


SAMPLE = Path(__file__).parent / "samples" / "subscription.json"
SEED_FIELDS = {
    *("Id", "Name", "Caption", "Description", "ConsumerId", "RoutingKey", "RoutingHeaders", "PrefetchSize", "PrefetchCount"),
    *("WorkerThreadCount", "MinListenTime", "AcknowledgePolicy", "RejectPolicy", "Handler"),
}


def test_shape_of_the_seed_runs(place: Place, tmp_path: Path) -> None:
    """The third seed's own document: ObjectMetadata's fields, and all those of Subscription."""
    sample = json.loads(SAMPLE.read_text(encoding="utf-8"))
    assert set(sample["Subscriptions"][0]) == SEED_FIELDS
    handlers(tmp_path, "def handle(message):\n    open('handled', 'wb').write(message.body)\n", "registry")
    with WorkProcess(tmp_path, str(SAMPLE), "--url", place.url) as process:
        process.says(": listening")
        with ExitStack() as stack:
            stack.callback(place.delete, "patient_events.registration")
            place.publish("patient_events", "patient.registered", b"42")
            eventually((tmp_path / "handled").exists)
            eventually(lambda: (tmp_path / "handled").read_bytes() == b"42")
            assert process.stop() == 0
