"""A power cut under a real broker: its data folder is on a disk that forgets what was not synced."""

import os
from pathlib import Path
from random import Random

import pytest
from tests.crash.load import Books, Load, Peer, contents
from tests.crash.mount import FuseMissing, Mount, install_fuse
from tests.server.support import Process

from leveret.store.inspection import Inspection, segment_names
from leveret.wire import spec

CUTS = int(os.environ.get("SOAK_CUTS", "10"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
LOAD_S = 10.0
START_S = 1.0
# How much of what was not synced survives: nothing, some, most.
SHARES = (0.0, 0.3, 0.9)


@pytest.fixture(scope="module", autouse=True)
def _fuse() -> None:
    try:
        install_fuse()
    except FuseMissing as error:
        pytest.skip(str(error))


class Machine:
    """A disk, and a broker on it that is started again after each cut."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self._folder = folder
        self._environment = {"LEVERET_SEGMENT_SIZE": "65536", **(environment or {})}

    @property
    def data(self) -> Path:
        return self._folder / "disk" / "data"

    def mount(self) -> Mount:
        return Mount(self._folder / "disk", self._folder / "image")

    def broker(self) -> Process:
        return Process(self._folder, "--data-dir", str(self.data), environment=self._environment)


def cuts(count: int, machine: Machine, load: Load, random: Random) -> None:
    for _ in range(count):
        one_cut(machine, load, random)


def one_cut(machine: Machine, load: Load, random: Random) -> None:
    """Check what the last cut left, put the broker under load, and cut again."""
    while cut_while_it_starts(machine, random):
        pass
    with machine.mount() as disk:
        check_whole(machine.data)
        broker = machine.broker()
        try:
            broker.__enter__()
            load.check(broker.port)
            assert "ERROR leveret.store" not in broker.log
            load.start(broker.port)
            disk.cut_after(random.randint(1, 1200), random.randrange(1 << 30), random.choice(SHARES))
            disk.wait_for_cut(LOAD_S)
        finally:
            broker.kill()
            load.join()


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
    load = Load(SEED)
    machine = Machine(tmp_path)
    cuts(CUTS, machine, load, random)
    with machine.mount(), machine.broker() as broker:
        load.check(broker.port)
        names = segment_names(machine.data)
    published, kept = load.figures
    assert published > 100 * CUTS
    assert kept > 0
    assert names[0] != "journal-00000001.log", "no segment was removed"


@pytest.mark.timeout(60)
def test_confirmed_message_on_a_new_disk(tmp_path: Path) -> None:
    """SPEC §8.1: the first message is kept, with the folder and the files that were made for it."""
    machine = Machine(tmp_path)
    with machine.mount() as disk:
        broker = machine.broker().__enter__()
        try:
            with Peer(broker.port).login().confirming() as peer:
                peer.declare("first", durable=True)
                books = Books("first")
                peer.publish(books, books.take(1))
                peer.expect(spec.BasicAck)
                disk.cut_after(0, 0, 0.0)
                disk.wait_for_cut(0)
        finally:
            broker.kill()
    with machine.mount(), machine.broker() as broker, Peer(broker.port).login() as peer:
        assert contents(peer, books) == [0]


@pytest.mark.timeout(120)
def test_the_disk_does_forget(tmp_path: Path) -> None:
    """SPEC §8.2: with `sync = "os"` confirmed messages are lost; a disk that would keep them would find nothing."""
    machine = Machine(tmp_path, {"LEVERET_SYNC": "os"})
    load = Load(SEED)
    random = Random(SEED)
    with pytest.raises(AssertionError, match="lost"):
        cuts(10, machine, load, random)
