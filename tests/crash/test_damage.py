"""Damage of every file in the data folder, of stopped, killed and running brokers: said, costs only itself, nobody gets what
is not theirs. docs/store.md has the table of what it costs; this makes it of what it saw, and compares. To write it anew:

    LEVERET_WRITE_TABLE=1 pytest tests/crash/test_damage.py
"""

import os
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from tests.crash.damage import (
    STORED,
    TENANTS,
    TRANSIENT,
    Contents,
    Identity,
    Knock,
    Publisher,
    Record,
    Stock,
    api,
    copied,
    end_all,
    login,
    make,
    permit,
    start,
    take,
)
from tests.properties.dialogue import method
from tests.server.support import PATIENCE, Process, eventually

from leveret.cli.api import Unreachable, part
from leveret.cli.store import check, repair
from leveret.store.checks import BLOCK
from leveret.store.layout import MESSAGE, SETTLE
from leveret.wire import spec

PAGE = Path(__file__).parents[2] / "docs" / "store.md"
BEGIN, END = "<!-- table of damage: made by tests/crash/test_damage.py -->\n", "<!-- end of the table -->\n"
AT_ONCE = 3

STOPPED, KILLED, RUNNING = "stopped", "killed", "running"
CUTS = ("cut to half", "cut to nothing", "missing")
HEADER, HEAD, TABLE = "a bit of the file's header", "a bit of a batch's head", "a bit of a batch's table"
IN_MESSAGE, IN_SETTLEMENT = "a bit of a message", "a bit of an acknowledgement"

NOTHING = "nothing is lost"
ENDS = "it stops and says why; then "
SIGBUS = "SIGBUS ends the broker; then "
TORN = "what was behind the cut is lost; it counts as a write that was not finished"
REFUSED = "it does not start; `repair` keeps all messages"
LOST = {
    IN_MESSAGE: "what that block of 32 KiB said is lost",
    IN_SETTLEMENT: "what that block of 32 KiB said is lost",
    "cut to half": "what was behind the cut is lost",
    "cut to nothing": "what that file said is lost",
    "missing": "what that file said is lost",
}


class Case(NamedTuple):
    """What is damaged, and how, of a broker in which state."""

    state: str
    file: str
    damage: str


def cases() -> Iterator[Case]:
    for state in (STOPPED, KILLED, RUNNING):
        for file, bits in (
            ("the oldest segment", (HEADER, IN_MESSAGE)),
            ("a segment in the middle", (HEAD, TABLE, IN_MESSAGE, IN_SETTLEMENT)),
            ("the newest segment", (HEAD, IN_MESSAGE)),
            ("definitions.sqlite", (HEADER, "a bit of a definition", "a bit in the middle")),
        ):
            for damage in (*bits, *CUTS):
                yield Case(state, file, damage)
        if state != STOPPED:
            for damage in (HEADER, "a bit of the last change", *CUTS):
                yield Case(state, "definitions.sqlite-wal", damage)
            for damage in (HEADER, "a bit in the middle", *CUTS):
                yield Case(state, "definitions.sqlite-shm", damage)
            for damage in (IN_MESSAGE, *CUTS):
                yield Case(state, "a spill file", damage)
        yield Case(state, "lock", "missing")
        if state == RUNNING:
            yield Case(state, "control.sock", "missing")


class Hit(NamedTuple):
    """What was damaged: the file's name, and what may be lost with it: messages, and that messages are gone."""

    name: str
    lost: set[Identity]
    back: set[Identity]


class Damage:
    """Does what a case says to a folder."""

    def __init__(self, case: Case, folder: Path) -> None:
        self._case = case
        self._contents = Contents(folder / "data")
        self._name = self._find_name()
        self._path = folder / "data" / self._name
        self._records = self._contents.records.get(self._name, [])

    def _find_name(self) -> str:
        contents = self._contents
        settling = [name for name in contents.journal if any(one.kind == SETTLE for one in contents.records[name])]
        names: dict[str, Callable[[], str]] = {
            "the oldest segment": lambda: contents.journal[0],
            "a segment in the middle": lambda: settling[0],
            "the newest segment": lambda: contents.journal[-1],
            "a spill file": lambda: max(contents.spill, key=lambda name: len(contents.records[name])),
        }
        return names[self._case.file]() if self._case.file in names else self._case.file

    def do(self) -> Hit:
        damage = self._case.damage
        if damage in CUTS:
            return self._cut()
        at, hit = self._place(damage)
        with self._path.open("r+b") as file:
            file.seek(at)
            octet = file.read(1)[0]
            file.seek(at)
            file.write(bytes([octet ^ 4]))
        return hit

    def _cut(self) -> Hit:
        size = self._path.stat().st_size
        at = size // 2 if self._case.damage == "cut to half" else 0
        # A running broker has checks of blocks: what is left of the one in which the cut is cannot be compared.
        lost, back = self._contents.said(self._name, at - at % BLOCK if self._case.state == RUNNING else at, size)
        if self._case.damage == "missing":
            self._path.unlink()
        else:
            os.truncate(self._path, at)
        return Hit(self._name, lost, back)

    def _place(self, damage: str) -> tuple[int, Hit]:
        """Where a bit is flipped, and what may be lost with it."""
        if not self._records:
            return self._place_elsewhere(damage), Hit(self._name, set(), set())
        if damage == HEADER:
            return 9, Hit(self._name, set(), set())
        chosen = self._choose(SETTLE if damage == IN_SETTLEMENT else MESSAGE)
        at = {HEAD: chosen.batch + 20, TABLE: chosen.table + 1}.get(damage, (chosen.start + chosen.end) // 2)
        block = (at - at % BLOCK, at - at % BLOCK + BLOCK)
        lost: set[Identity] = set()
        back: set[Identity] = set()
        for record in self._records:
            # What is written to the spill has checks of blocks alone; in the journal each batch in a block has its own.
            same = record.batch == chosen.batch or self._case.file == "a spill file"
            if damage not in (HEAD, TABLE) and record.is_in(*block) and same:
                (lost if record.kind == MESSAGE else back).update(record.about)
        return at, Hit(self._name, lost, back)

    def _choose(self, kind: int) -> Record:
        """A record in the middle of the longest batch that has such."""
        # The last batch could be one that was not finished.
        last = self._records[-1].batch
        fitting = [record for record in self._records if record.kind == kind and record.about and record.batch != last]
        longest = max(fitting, key=lambda record: record.following - record.batch).batch
        fitting = [record for record in fitting if record.batch == longest]
        return fitting[len(fitting) // 2]

    def _place_elsewhere(self, damage: str) -> int:
        octets = self._path.read_bytes()
        if damage == "a bit of a definition":
            return octets.index(b"password_hash") + 20
        return {HEADER: 5, "a bit in the middle": len(octets) // 2 + 2}.get(damage, len(octets) - 100)


# What is seen


LOCK = Lock()


def store(command: object, folder: Path) -> tuple[int, str]:
    """`leveret store …`; the runner is for one at a time."""
    with LOCK:
        done = CliRunner().invoke(command, [str(folder / "data")])  # type: ignore[arg-type]
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done.exit_code, done.output


def see(case: Case, folder: Path, templates: dict[str, tuple[Path, Stock]]) -> str:
    """Carry out a case; its outcome in a sentence."""
    folder.mkdir()
    template, stock = templates[STOPPED if case.state == STOPPED else KILLED]
    copied(template, folder)
    if case.state == RUNNING:
        return see_running(case, folder, stock)
    damage = Damage(case, folder)
    hit = damage.do()
    before = journal(folder)
    code, checked = store(check, folder)
    assert journal(folder) == before, "the check has changed something"
    broker = start(folder)
    if not broker.port:
        assert code == 1
        assert "definitions.sqlite" in checked
        return refused(case, broker, folder, stock, before, set())
    lost, back = consume(broker, stock, hit, set())
    if (lost or back) and case[1:] == ("the newest segment", "cut to half") and code == 0:
        assert f"{hit.name} at " in checked
        assert re.search(rf"WARNING .*{hit.name}: cut \d+ octets of an unfinished write at \d+", broker.log)
        return TORN
    if lost or back:
        assert code == 1, checked
        assert re.search(rf"^{hit.name}|^journal", checked, re.MULTILINE), checked
        assert_said(hit, broker.log)
    return outcome(case, lost | back)


def outcome(case: Case, lost: set[Identity]) -> str:
    # Of heads and tables nothing may be lost.
    return LOST[case.damage] if lost else NOTHING


def assert_said(hit: Hit, log: str) -> None:
    assert re.search(rf"ERROR .*({hit.name}|the journal's batch)", log), f"nothing is said of {hit.name}: {log}"


def journal(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "data").glob("journal-*")}


def consume(broker: Process, stock: Stock, hit: Hit, may_be_there: set[Identity]) -> tuple[set[Identity], set[Identity]]:
    """Take all there is: what is lost, and what is back that was gone."""
    # No others could bring them back, and to be refused takes a second.
    knocks = [Knock(broker, user) for user in ("guest", "mallory") if hit.name.startswith("definitions")]
    found: set[Identity] = set()
    for vhost in TENANTS:
        with login(broker, vhost) as client:
            client.declare("fresh", durable=True)
            for queue in (*STORED, "fresh"):
                mine = take(client, queue)
                assert [one[:2] for one in mine] == [(vhost, queue)] * len(mine), "another's messages"
                assert mine == sorted(set(mine)), "out of order, or twice"
                found |= set(mine)
            client.send(method(1, spec.QueueDeclare("old", passive=True)))
            assert client.expect(spec.ChannelClose).reply_code == 404, "a queue that was deleted is back"
    for knock in knocks:
        assert not knock.let_in(), "a deleted user is back"
    broker.kill()
    assert "Traceback" not in broker.log
    expected = stock.all()
    lost, back = expected - found, found - expected - may_be_there
    assert lost <= hit.lost, f"lost beyond the damage: {sorted(lost - hit.lost)}"
    assert back <= hit.back, f"back beyond the damage: {sorted(back - hit.back)}"
    return lost, back


# The ways out


def refused(case: Case, broker: Process, folder: Path, stock: Stock, before: dict[str, bytes], maybe: set[Identity]) -> str:
    """The broker has said why it does not start, and has changed nothing; both ways out of that work."""
    assert broker.popen.returncode == 1, broker.log
    (line,) = [line for line in broker.log.splitlines() if not re.match(r"\d{4}-", line)]
    assert line.startswith("leveret: the definitions "), line
    for word in ("definitions.sqlite", "leveret store repair", "--accept-loss"):
        assert word in line, line
    assert journal(folder) == before
    (folder / "accepted").mkdir()
    copied(folder, folder / "accepted")
    code, said = store(repair, folder)
    assert code == 0, said
    repaired(folder, stock, maybe)
    accepted(folder / "accepted", case.damage in ("missing", "a bit of a definition"))
    return REFUSED


def repaired(folder: Path, stock: Stock, maybe: set[Identity]) -> None:
    """Every message is in its queue, or in one of the vhost `recovered`; who was deleted stays out."""
    broker = start(folder, management=True)
    assert broker.port, broker.log
    knocks = [Knock(broker, user) for user in ("guest", "mallory")]
    found: set[Identity] = set()
    for vhost, queue, mine in all_of(broker, folder):
        assert len({one[:2] for one in mine}) <= 1, "messages of several queues in one"
        assert vhost == "recovered" or all(one[:2] == (vhost, queue) for one in mine), "another's messages"
        assert mine == sorted(set(mine)), "out of order, or twice"
        assert not found & set(mine)
        found |= set(mine)
    assert not stock.all() - found, f"lost: {sorted(stock.all() - found)}"
    for one in found - stock.all() - maybe:
        assert one.queue == "old", f"{one} was acknowledged"
    for knock in knocks:
        assert not knock.let_in(), "a deleted user is back"
    broker.kill()
    assert "Traceback" not in broker.log


def accepted(folder: Path, again: bool) -> None:
    """The broker starts, says what it does without, and no queue has another's messages; nor after another start."""
    broker = start(folder, "--accept-loss", management=True)
    assert broker.port, broker.log
    assert re.search(r"ERROR .*definitions\.sqlite.*--accept-loss", broker.log)
    for vhost, queue, mine in all_of(broker, folder):
        assert all(one[:2] == (vhost, queue) for one in mine), "another's messages"
    own = Stock()
    with Publisher(broker, "/", own, "auditor") as publisher:
        publisher.client.declare("fresh", durable=True)
        publisher.fill("fresh", 1)
    broker.kill()
    assert "Traceback" not in broker.log
    if not again:
        return
    broker = start(folder, management=True)
    assert broker.port, broker.log
    found = {(vhost, queue): mine for vhost, queue, mine in all_of(broker, folder)}
    assert found["/", "fresh"] == [Identity("/", "fresh", 0)]
    broker.kill()


def all_of(broker: Process, folder: Path) -> Iterator[tuple[str, str, list[Identity]]]:
    """Consume everything in all queues, by an administrator whom leveretctl makes."""
    vhosts = [vhost["name"] for vhost in api(folder).get("/api/vhosts")]
    permit(folder, "auditor", *vhosts)
    for vhost in vhosts:
        with login(broker, vhost, "auditor") as client:
            for queue in api(folder).get(f"/api/queues/{part(vhost)}"):
                yield vhost, queue["name"], take(client, queue["name"])


# Running brokers


def see_running(case: Case, folder: Path, template: Stock) -> str:
    """A broker whose file is damaged goes on; or it stops and says why. Then it is killed, and starts again."""
    broker = start(folder, management=case.file == "control.sock")
    stock, transient = template.copy(), Stock()
    for vhost in TENANTS:
        with Publisher(broker, vhost, transient) as publisher:
            publisher.client.declare(TRANSIENT)
            publisher.fill(TRANSIENT, 60, persistent=False)
        with Publisher(broker, vhost, stock) as publisher:
            for queue in STORED:
                publisher.fill(queue, 9)
    eventually(lambda: len(spilled(folder)) >= 80)
    damage = Damage(case, folder)
    hit = damage.do()
    if case.file == "control.sock":
        with pytest.raises(Unreachable):
            api(folder).get("/api/vhosts")
    if case.file == "lock":
        nobody_else(folder)
    run = Run(broker, stock, transient)
    ended = run.go_on()
    log = broker.log
    assert ended in (None, 1) or (ended == -signal.SIGBUS and "cut" in case.damage), f"it has ended with {ended}"
    prefix = {None: "", 1: ENDS}.get(ended, SIGBUS)
    lost = run.expected - run.taken if ended is None else set()
    assert lost <= hit.lost, f"lost beyond the damage: {sorted(lost - hit.lost)}"
    if lost:
        assert_said(hit, log)
    if ended == 1:
        assert "leveret: storage failed: " in log, log
    again = start(folder)
    if not again.port:
        return prefix + refused(case, again, folder, stock, journal(folder), run.expected)
    maybe = run.expected if ended is not None else hit.lost - run.taken
    later, back = consume(again, stock, hit, maybe)
    if later or back:
        assert_said(hit, again.log)
    return prefix + outcome(case, lost | later | back)


def spilled(folder: Path) -> list[Record]:
    contents = Contents(folder / "data")
    return [record for name in contents.spill for record in contents.records[name]]


def nobody_else(folder: Path) -> None:
    """Another broker does not start on a folder that is in use."""
    (folder / "other").mkdir()
    other = start(folder / "other", "--data-dir", str(folder / "data"))
    try:
        assert not other.port, "two brokers are on one folder"
        assert "is in use by another process" in other.log
    finally:
        other.kill()


class Run:
    """What a broker does after its file was damaged."""

    def __init__(self, broker: Process, stock: Stock, transient: Stock) -> None:
        self._broker = broker
        self._stock = stock
        self.expected = stock.all() | transient.all()
        self._found: dict[tuple[str, str], list[Identity]] = {}

    @property
    def taken(self) -> set[Identity]:
        return {one for mine in self._found.values() for one in mine}

    def go_on(self) -> int | None:
        """Consume everything and publish more, then SIGKILL; the exit code of a broker that has stopped before."""
        stock, broker = self._stock, self._broker
        try:
            for vhost in TENANTS:
                with Publisher(broker, vhost, stock) as publisher:
                    self._go_on_in(publisher, vhost)
        except (OSError, EOFError, AssertionError):
            # A broker that has said no must be over; what is wrong otherwise runs into this.
            broker.popen.wait(PATIENCE)
        ended = broker.popen.poll()
        broker.kill()
        assert "Traceback" not in broker.log
        for (vhost, queue), mine in self._found.items():
            assert all(one[:2] == (vhost, queue) for one in mine), "another's messages"
            assert mine == sorted(set(mine)), "out of order, or twice"
        return ended

    def _go_on_in(self, publisher: Publisher, vhost: str) -> None:
        for queue in (*STORED, TRANSIENT):
            mine = self._found[vhost, queue] = []
            # Some, or all, is not expected any more.
            self._stock.ready[vhost, queue] = []
            take(publisher.client, queue, found=mine)
        publisher.client.declare("fresh", durable=True)
        publisher.fill("fresh", 1)
        for _ in range(3):
            publisher.fill(STORED[0], 10)


# All of it


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, str | BaseException]:
    """What was seen in each case, or what was wrong."""
    folder = tmp_path_factory.mktemp("damage")
    templates = {state: (folder / state, make(folder / state, state == KILLED)) for state in (STOPPED, KILLED)}

    def seen(number: int, case: Case) -> str | BaseException:
        try:
            return see(case, folder / f"{number}", templates)
        except Exception as error:
            return error
        finally:
            end_all()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(CASES, pool.map(seen, range(len(CASES)), CASES), strict=True))


CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=["-".join(case).replace(" ", "_") for case in CASES])
def test_damage(case: Case, outcomes: dict[Case, str | BaseException]) -> None:
    found = outcomes[case]
    if isinstance(found, BaseException):
        raise found


# The table


FILES = {
    "the oldest segment": "`journal-*.log`",
    "a segment in the middle": "`journal-*.log`",
    "the newest segment": "`journal-*.log`",
    "a spill file": "`spill-*.log`",
}
BITS = (
    HEADER,
    HEAD,
    TABLE,
    IN_MESSAGE,
    IN_SETTLEMENT,
    "a bit of a definition",
    "a bit in the middle",
    "a bit of the last change",
)
# What costs least comes first.
RANKS = [NOTHING, *dict.fromkeys(LOST.values()), TORN, SIGBUS + NOTHING, REFUSED, ENDS + NOTHING, ENDS + REFUSED]


def row_of(case: Case) -> tuple[str, str]:
    file = FILES.get(case.file, f"`{case.file}`")
    if case.file == "the newest segment" and case.damage in CUTS:
        file += ", the newest"
    return file, case.damage


def table(outcomes: dict[Case, str]) -> str:
    """The table of docs/store.md: of several segments the one that costs most; damages that cost the same are in one row."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for case, text in outcomes.items():
        found = cells.setdefault(row_of(case), {})
        found[case.state] = max(found.get(case.state, NOTHING), text, key=RANKS.index)
    rows: dict[tuple[str, ...], list[str]] = {}
    for file in dict.fromkeys(file for file, _ in cells):
        for damage in [one for one in (*BITS, *CUTS) if (file, one) in cells]:
            texts = [cells[file, damage].get(state, "–") for state in (STOPPED, KILLED, RUNNING)]
            rows.setdefault((file, *texts), []).append(damage)
    lines = ["| file | damage | stopped with SIGTERM | killed | running |", "|---|---|---|---|---|"]
    lines += [f"| {file} | {', '.join(damages)} | {' | '.join(texts)} |" for (file, *texts), damages in rows.items()]
    return "\n".join(lines) + "\n"


def test_table_in_the_documentation(outcomes: dict[Case, str | BaseException]) -> None:
    found = {case: text for case, text in outcomes.items() if isinstance(text, str)}
    assert len(found) == len(CASES), "not all cases are well"
    page = PAGE.read_text()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    if os.environ.get("LEVERET_WRITE_TABLE"):
        PAGE.write_text(page[:begin] + table(found) + page[end:])
    else:
        assert page[begin:end] == table(found)
