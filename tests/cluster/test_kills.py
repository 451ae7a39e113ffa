"""nats-servers are killed under a leader: what it confirms is stored once, and it goes on when they are back."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.leader import Leader, new_log
from tests.cluster.support import new_name

from leveret.cluster.engine import Engine
from leveret.cluster.group import State
from leveret.cluster.nats import Client

BEFORE, AFTER = 500, 500
AT_ONCE = 50


@pytest.fixture
def leaders(three: list[Engine], tmp_path: Path) -> Iterator[list[Leader]]:
    """A leader that asks the first server, and whoever leads next."""
    name = new_name()
    new_log(three[0], name, replicas=3)
    found = [Leader(engine, name, tmp_path, f"n{number}") for number, engine in enumerate(three, 1)]
    yield found
    for leader in found:
        leader.close()


def stream_leader(engine: Engine, name: str) -> str:
    client = Client(engine.address)
    cluster = client.ask_jetstream(f"STREAM.INFO.{name}").cluster
    client.close()
    assert cluster is not None
    return cluster.leader


def publish(leader: Leader, count: int) -> None:
    """Publish so many, some at a time, until all are confirmed."""
    first = len(leader.confirmed)
    for number in range(first, first + count, AT_ONCE):
        leader.publish(*(b"%06d" % one for one in range(number, number + AT_ONCE)))
        leader.turn()
        while leader.carry_out():
            pass
    leader.sync()
    assert leader.group.state is State.LEADING, leader.ended


@pytest.mark.parametrize("victims", ["leader", "another", "own", "all"])
def test_leader_goes_on_when_servers_are_killed(leaders: list[Leader], three: list[Engine], victims: str) -> None:
    """SPEC §11.3: elections and restarts are waited for; nothing confirmed is lost, and nothing is stored twice."""
    leader = leaders[0].lead()
    publish(leader, BEFORE)
    names = {engine._options.node: engine for engine in three}
    first = names[stream_leader(three[0], leader.group.place.name)]
    killed = {
        "leader": [first],
        "another": [engine for engine in three if engine is not first][:1],
        "own": [three[0]],
        "all": three,
    }[victims]
    leader.publish(b"%06d" % BEFORE)
    leader.turn()
    for engine in killed:
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
    leader.until(lambda: len(leader.confirmed) > BEFORE)
    publish(leader, AFTER)
    assert leader.group.epoch == 1
    expected = [b"%06d" % number for number in range(BEFORE + 1 + AFTER)]
    assert leader.confirmed == expected
    assert leaders[1].lead().bodies() == expected
