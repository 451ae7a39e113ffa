"""A broker that is killed again and again under load, while segments of 64 KiB are compacted."""

import os
import time
from pathlib import Path
from random import Random
from types import TracebackType

import pytest
from tests.crash.load import Load
from tests.server.support import Process

from leveret.store.inspection import segment_names

KILLS = int(os.environ.get("SOAK_KILLS", "20"))
SEED = int(os.environ.get("SOAK_SEED", "1"))


class Victim(Process):
    """A broker that is killed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, environment={"LEVERET_SEGMENT_SIZE": "65536"})

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        if kind is None:
            assert "Traceback" not in self.log
            assert "damaged" not in self.log


@pytest.mark.timeout(60 + 10 * KILLS)
def test_nothing_promised_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    """SPEC §8.1 and §8.3: SIGKILL at any moment loses nothing confirmed and brings nothing acknowledged back."""
    random = Random(SEED)
    load = Load(SEED)
    published = 0
    for _ in range(KILLS + 1):
        with Victim(tmp_path) as victim:
            load.check(victim.port)
            load.start(victim.port)
            time.sleep(random.uniform(0.05, 0.8))
            victim.popen.kill()
            load.join()
        assert load.figures[0] > published, "nothing was published"
        published = load.figures[0]
    assert segment_names(tmp_path / "data")[0] != "journal-00000001.log", "nothing was compacted"
