"""A broker that is killed again and again under load, with windows of 8 messages and segments of 64 KiB, or large ones."""

import os
import signal
import time
from pathlib import Path
from random import Random

import pytest
from tests.crash.load import TINY, Load, check_figures, check_log
from tests.server.support import PATIENCE, Process

from leveret.store.inspection import segment_names
from leveret.wire import spec

KILLS = int(os.environ.get("SOAK_KILLS", "20"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
LOAD_S = 0.8
START_S = 0.6


class Lives:
    """A data folder, and the brokers that live on it one after the other."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.load = Load(seed)
        self.kills = 0
        self._random = Random(seed)

    def _process(self) -> Process:
        sizes = self._random.choice(({}, TINY, TINY, TINY, {**TINY, "LEVERET_PAGE_COUNT": "4"}))
        return Process(self.folder, environment=sizes)

    def live(self, checked: bool, clean: bool = False) -> None:
        """Start, perhaps compare, put it under load, and end it: killed, or in order."""
        published = self.load.published
        broker = self._process()
        try:
            broker.__enter__()
            if checked:
                self.load.check(broker.port)
            check_figures(self.folder / "data")
            self.load.start(broker.port)
            time.sleep(self._random.uniform(0.05, LOAD_S))
            if self._random.random() < 0.3:
                check_figures(self.folder / "data")
            if clean:
                broker.popen.send_signal(signal.SIGTERM)
                assert broker.popen.wait(PATIENCE) == 0
        finally:
            broker.kill()
        # What the broker says of itself explains what clients have seen.
        check_log(broker.log)
        self.load.end(clean)
        self.kills += not clean
        assert not [one for one in self.load.told if isinstance(one, spec.BasicNack)]
        assert self.load.published > published, "nothing was published"

    def die_while_starting(self) -> None:
        broker = self._process()
        time.sleep(self._random.uniform(0, START_S))
        broker.kill()
        self.load.end()
        self.kills += 1
        check_log(broker.log)

    def second_life(self) -> None:
        """Nobody looks at what the first has left, or somebody does; then it ends too, in some way."""
        way = self._random.random()
        if way < 0.2:
            self.die_while_starting()
        else:
            self.live(checked=self._random.random() < 0.5, clean=way > 0.6)


@pytest.mark.timeout(60 + 10 * KILLS)
def test_nothing_promised_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    """SPEC §8.1 and §8.3: SIGKILL at any moment loses nothing confirmed and brings nothing acknowledged back."""
    lives = Lives(tmp_path, SEED)
    while lives.kills < KILLS:
        lives.live(checked=True)
        lives.second_life()
    with Process(tmp_path, environment=TINY) as broker:
        lives.load.check(broker.port)
        check_figures(tmp_path / "data")
    assert segment_names(tmp_path / "data")[0] != "journal-00000001.log", "nothing was compacted"
