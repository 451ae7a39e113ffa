"""A power cut under a real broker: its data folder is on a disk that forgets what was not synced."""

import os
from pathlib import Path
from random import Random

import pytest
from tests.crash.books import Books, Family
from tests.crash.clients import Stream
from tests.crash.load import TINY, Load, check_log, contents
from tests.crash.mount import Mount, need_fuse
from tests.crash.peer import Peer
from tests.server.support import Process

from leveret.store.inspection import Inspection, segment_names

CUTS = int(os.environ.get("SOAK_CUTS", "10"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
LOAD_S = 10.0
START_S = 1.0
# The disk is a Python program: so many octets in large bodies for each cut.
LARGE_BYTES = 6_000_000
# How much of what was not synced survives: nothing, some, most.
SHARES = (0.0, 0.3, 0.9)


@pytest.fixture(scope="module", autouse=True)
def _fuse() -> None:
    # What is missing is said by the fault.
    need_fuse()


class Machine:
    """A disk, and a broker on it that is started again after each cut."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self._folder = folder
        self._environment = environment or {}

    @property
    def data(self) -> Path:
        return self._folder / "disk" / "data"

    def mount(self) -> Mount:
        return Mount(self._folder / "disk", self._folder / "image")

    def broker(self, sizes: dict[str, str] = TINY) -> Process:
        return Process(self._folder, "--data-dir", str(self.data), environment={**sizes, **self._environment})


def cuts(count: int, machine: Machine, load: Load, random: Random) -> None:
    for _ in range(count):
        one_cut(machine, load, random)


def one_cut(machine: Machine, load: Load, random: Random) -> None:
    """Check what the last cut left, or not yet, put the broker under load, and cut again."""
    while cut_while_it_starts(machine, random):
        load.end()
    with machine.mount() as disk:
        check_whole(machine.data)
        broker = machine.broker(random.choice((TINY, TINY, TINY, {})))
        try:
            broker.__enter__()
            if random.random() < 0.7:
                load.check(broker.port)
            check_log(broker.log)
            load.start(broker.port)
            disk.cut_after(random.randint(1, 1200), random.randrange(1 << 30), random.choice(SHARES))
            disk.wait_for_cut(LOAD_S)
        finally:
            broker.kill()
            load.end()


def check_whole(data: Path) -> None:
    """What a cut leaves is no damage, also to those who look closely."""
    if data.is_dir() and segment_names(data):
        found = Inspection(data)
        found.check_journal()
        assert not [str(fault) for fault in found.faults if fault.lost]


def cut_while_it_starts(machine: Machine, random: Random) -> bool:
    if random.random() > 0.3:
        return False
    with machine.mount() as disk:
        disk.cut_after(random.randint(1, 80), random.randrange(1 << 30), random.choice(SHARES))
        broker = machine.broker()
        try:
            disk.wait_for_cut(START_S)
        finally:
            broker.kill()
    return True


@pytest.mark.timeout(60 + 6 * CUTS)
def test_power_cuts(tmp_path: Path) -> None:
    """SPEC §8.1 and §8.3: confirmed messages are there, in order, and settled ones are not, however often the power goes."""
    random = Random(SEED)
    load = Load(SEED, LARGE_BYTES)
    machine = Machine(tmp_path)
    cuts(CUTS, machine, load, random)
    with machine.mount(), machine.broker() as broker:
        load.check(broker.port)
        check_log(broker.log)
        names = segment_names(machine.data)
    assert load.published > 100 * CUTS
    assert load.kept > 0
    assert names[0] != "journal-00000001.log", "no segment was removed"


@pytest.mark.timeout(60)
def test_confirmed_message_on_a_new_disk(tmp_path: Path) -> None:
    """SPEC §8.1: the first message is kept, with the folder and the files that were made for it."""
    machine = Machine(tmp_path)
    family = Family("first")
    books, stream = Books([family]), Stream("first", (family,))
    with machine.mount() as disk:
        broker = machine.broker().__enter__()
        try:
            with Peer(broker.port, books).login() as peer:
                peer.declare("first", durable=True)
                channel = peer.channel()
                channel.send(*channel.publish(stream.make(books, Random(SEED)), key="first"))
                channel.wait_for_confirms()
                disk.cut_after(0, 0, 0.0)
                disk.wait_for_cut(0)
        finally:
            broker.kill()
            books.end(clean=False)
    with machine.mount(), machine.broker() as broker, Peer(broker.port, books).login() as peer:
        assert len(contents(peer, "first")) == 1


@pytest.mark.timeout(120)
def test_the_disk_does_forget(tmp_path: Path) -> None:
    """SPEC §8.2: with `sync = "os"` confirmed messages are lost; a disk that would keep them would find nothing."""
    machine = Machine(tmp_path, {"LEVERET_SYNC": "os"})
    load = Load(SEED, LARGE_BYTES)
    random = Random(SEED)
    with pytest.raises(AssertionError, match=r"lost|half of a transaction|does not say so"):
        cuts(10, machine, load, random)
