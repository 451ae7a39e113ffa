"""A broker that is killed again and again under load, while segments of 64 KiB are compacted.

After each SIGKILL the broker is started on the same folder and everything in its queues is read and compared with the
notes of its clients.
"""

import os
import random
import time
from pathlib import Path
from types import TracebackType

import pytest
from tests.crash.load import Load, Notes, declare_all, read_and_compare
from tests.server.support import Process

KILLS = int(os.environ.get("SOAK_KILLS", "20"))
SEED = int(os.environ.get("SOAK_SEED", "1"))


class Victim(Process):
    """A broker that is killed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, environment={"LEVERET_SEGMENT_SIZE": "65536"})

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.popen.kill()
        self.popen.wait()
        assert self.popen.stdout is not None
        self.popen.stdout.close()
        if kind is None:
            assert "Traceback" not in self.log
            assert "damaged" not in self.log


@pytest.mark.timeout(60 + 10 * KILLS)
def test_nothing_promised_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    """SPEC §8.1 and §8.3: SIGKILL at any moment loses nothing confirmed and brings nothing acknowledged back."""
    choice = random.Random(SEED)
    notes = Notes()
    published = 0
    for number in range(KILLS + 1):
        with Victim(tmp_path) as victim:
            with victim.login() as client:
                declare_all(client)
            if number:
                read_and_compare(victim, notes, choice)
            load = Load(victim.port, notes, choice)
            time.sleep(choice.uniform(0.05, 0.8))
            victim.popen.kill()
            load.end()
        assert len(notes.published) > published, "nothing was published"
        published = len(notes.published)
    names = sorted(path.name for path in (tmp_path / "data").glob("journal-*.log"))
    assert int(names[0][8:16]) > 1, "nothing was compacted"
